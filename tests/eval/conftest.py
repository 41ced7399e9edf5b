from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import agents
from eval.metrics import EPISODE_COLUMNS, JobLog
from eval.play import Outcome
from eval.runner import Plan, check, play_all
from hexenv.engine.layout import CONFIG, NO_DEADLINE, SETTING, STREAM, TRACE

SHORT = {"horizon_us": 20_000.0}
"""Engine settings for episodes that are played in a moment."""


@pytest.fixture
def toy_tables():
    """A camera with deadlines and a filler without, 2 settings x 3 seeds, H = 4 contexts, lambda = 2."""
    config, streams, settings = np.zeros(1, CONFIG), np.zeros(2, STREAM), np.zeros(2, SETTING)
    config["contexts"], config["miss_weight"], config["horizon_ns"] = 4, 2.0, 10_000_000
    streams["deadline_ns"] = 5_000_000, NO_DEADLINE
    settings["load"], settings["tightness"] = (0.5, 1.5), 1.0
    settings["active"][0, :2] = True
    settings["active"][1, 0] = True
    return SimpleNamespace(
        config=config,
        streams=streams,
        settings=settings,
        stream_names=("camera", "filler"),
        scenario="toy",
        split="heldout",
        seeds=(100, 3),
    )


@pytest.fixture
def record():
    """Makes one TRACE record."""

    def make(event, t_ns, end_ns=None, **values):
        row = np.zeros(1, TRACE)
        row["event"], row["t_ns"], row["end_ns"] = event, t_ns, t_ns if end_ns is None else end_ns
        for name, value in values.items():
            row[name] = value
        return row

    return make


@pytest.fixture
def outcome_of(toy_tables):
    """Makes the outcome of a scheduler from its returns, an episode each; every episode misses 1 of 4 deadlines."""

    def make(scheduler, returns, latency_ms=(1.0, 2.0)):
        n = len(returns)
        frame = pd.DataFrame(dict.fromkeys(EPISODE_COLUMNS, np.zeros(n)))
        frame["setting"], frame["seed"] = np.arange(n) % 2, 100 + np.arange(n)
        frame["return"], frame["credit_ms"], frame["simulated_ms"] = returns, np.asarray(returns) + 5.0, 10.0
        frame["due"], frame["misses"], frame["decisions"] = 4, 1, 10
        latency_ns, index = (1e6 * np.array(latency_ms), np.array([7e6])), (np.arange(len(latency_ms)), np.array([0]))
        log = JobLog(latency_ns, dropped=np.array([1, 0]), rejected=np.array([0, 0]), index=index)
        due, missed = np.tile([4, 0], (n, 1)), np.tile([1, 0], (n, 1))
        return Outcome(scheduler, toy_tables, frame, due, missed, (log,) * n)

    return make


@pytest.fixture(scope="session")
def short_plan():
    """Three rules on one scenario, four episodes of 20 ms."""
    rules = tuple(agents.make(name) for name in ("random", "serial", "slack_gate"))
    return Plan(("camera_decode",), "v79", rules, 4, SHORT, command=("--scenario", "camera_decode"))


@pytest.fixture(scope="session")
def short_outcomes(short_plan):
    return play_all(short_plan, check(short_plan))


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """A policy of the learner ``ppo``, trained for a moment."""
    options = ["--steps", "128", "--lanes", "4", "--rollout", "32", "--minibatch", "64", "--epochs", "1"]
    return train(tmp_path_factory.mktemp("runs") / "run", "--learner", "ppo", *options)


@pytest.fixture(scope="session")
def trained_gate(tmp_path_factory):
    """A learned gate, trained for a moment."""
    options = ["--generations", "2", "--population", "4", "--episodes", "4"]
    return train(tmp_path_factory.mktemp("runs") / "gate", *options)


def train(run, *options):
    from train.__main__ import main

    assert main(["--out", str(run), *options, "--horizon-us", "10000", "--miss-weight", "3", "--no-eval"]) == 0
    return run
