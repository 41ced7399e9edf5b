"""A short training of ``ppo`` is enough to beat random play and first-in-first-out on episodes it has never seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents import make
from agents.learned import Learned
from agents.scheduler import Scheduler
from eval.episodes import held_out
from eval.play import Outcome, run
from eval.summary import paired
from hexenv.workload import build
from train.__main__ import main

HORIZON_US = 60_000.0
EPISODES = 12

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:tensorboard")


def play(scheduler: Scheduler) -> Outcome:
    tables = build("camera_decode", "v79", "heldout", horizon_us=HORIZON_US, **scheduler.overrides)
    return run(scheduler, tables, held_out(tables, EPISODES), lambda _: None)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A policy after 57,344 decisions of warm start and 8,192 of PPO."""
    folder: Path = tmp_path_factory.mktemp("runs") / "run"
    options = {"steps": 65_536, "imitate-steps": 57_344, "rollout": 64, "horizon-us": HORIZON_US, "out": folder}
    given = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    assert main(["--learner", "ppo", *given, "--no-eval"]) == 0
    return play(Learned(folder))


@pytest.mark.parametrize("rule", ["random", "serial"])
def test_beats_the_simple_rules_on_held_out_episodes(learned: Outcome, rule: str) -> None:
    assert paired(learned, play(make(rule)), "return").low > 10.0
