"""Schedulers that try to farm the reward instead of doing the work: each must lose against ``serial`` everywhere."""

import numpy as np
import pytest

import agents
from agents.kernels.tasks import action_of
from agents.scheduler import Scheduler
from hexenv.engine import Simulator, episode_key
from hexenv.engine.layout import N_TILES, NO_DEADLINE, Arrival, Tables
from hexenv.workload import build, load_scenario, scenario_names

SEEDS = range(6)
HORIZON_US = 100_000
DEADLINES = 2
"""An episode is at least so many times the longest deadline, or what is never served would never be due."""


class Adversary(Scheduler):
    """Runs one stage at a time: the first legal pick, in order of preference, of the tasks it is willing to serve."""

    mode = "serial"

    def __init__(self) -> None:
        self.name = type(self).__name__
        self.overrides = {"mode": self.mode}

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        self.tables = tables

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return np.array([self.choose(view, mask) for view, mask in zip(views, masks, strict=True)])

    def choose(self, view: np.void, mask: np.ndarray) -> int:
        """One lane's action."""
        for task in self.order(view):
            for variant in self.variants(view["tasks"][task]["op"]):
                if mask[action_of(task, variant, 0)]:
                    return action_of(task, variant, 0)
        return 0

    def order(self, view: np.void) -> list[int]:
        """Tasks it serves, oldest job first."""
        tasks = view["tasks"][: view["n_tasks"]]
        first = np.lexsort((tasks["stage"], tasks["arrival_ns"]))
        return [int(k) for k in first if self.serves(view, tasks[k])]

    def serves(self, view: np.void, task: np.void) -> bool:
        """Whether it serves this task at all."""
        return True

    def variants(self, op: int) -> list[int]:
        """Variants in order of preference: the fastest first."""
        rows = self.tables.ops["variant"][op].ravel()
        contexts = self.tables.config["contexts"][0]
        times = np.where(rows >= 0, self.tables.variants["alone_ns"][rows, contexts], np.iinfo(np.int64).max)
        return np.argsort(times, kind="stable").tolist()


class Waits(Adversary):
    """Never works."""

    def serves(self, view: np.void, task: np.void) -> bool:
        return False


class ServesTheLate(Adversary):
    """Serves jobs with a deadline only when they will be late anyway, and nothing else."""

    def serves(self, view: np.void, task: np.void) -> bool:
        return task["slack_ns"] < 0


class ServesTheNearlyLate(Adversary):
    """Lets every deadline come within 200 us of its last chance, and leaves best-effort work alone."""

    def serves(self, view: np.void, task: np.void) -> bool:
        return task["slack_ns"] < 200_000


class StarvesTheLoop(Adversary):
    """Never runs a closed loop that has deadlines, to be charged for one late result only instead of many."""

    def serves(self, view: np.void, task: np.void) -> bool:
        return not starvable(self.tables)[task["stream"]]


class SmallestTiles(Adversary):
    """Always the smallest tile class that is offered."""

    def variants(self, op: int) -> list[int]:
        return sorted(super().variants(op), key=lambda variant: variant % N_TILES)


class TogglesPicks(Adversary):
    """Makes as many decisions without time as it can: fills the second slot at once, with whatever is slowest."""

    mode = "fused"

    def variants(self, op: int) -> list[int]:
        return super().variants(op)[::-1]


ADVERSARIES = [Waits, ServesTheLate, ServesTheNearlyLate, StarvesTheLoop, SmallestTiles, TogglesPicks]


def starvable(tables: Tables) -> np.ndarray:
    """Which streams are closed loops with deadlines, bool of shape (n_streams,)."""
    return (tables.streams["arrival"] == Arrival.CLOSED_LOOP) & (tables.streams["deadline_ns"] < NO_DEADLINE)


def returns(scheduler: Scheduler, scenario: str) -> np.ndarray:
    """Return of each episode; asserts that a step without time earns nothing."""
    longest = max(stream.deadline_us or 0.0 for stream in load_scenario(scenario).streams)
    horizon_us = max(HORIZON_US, DEADLINES * longest)
    tables = build(scenario, split="heldout", horizon_us=horizon_us, **scheduler.overrides)
    simulator = Simulator(tables, batch=len(SEEDS))
    simulator.reset(np.array([episode_key(seed, 0) for seed in SEEDS], np.uint64))
    scheduler.start(tables, len(SEEDS), 0)
    total = np.zeros(len(SEEDS))
    while not (over := simulator.lanes["over"].copy()).all():
        simulator.step(scheduler.act(simulator.views, simulator.masks), where=~over)
        total[~over] += simulator.rewards[~over]
        assert (simulator.rewards[~over & (simulator.elapsed_ns == 0)] == 0.0).all()
    return total


@pytest.fixture(scope="module")
def serial() -> dict[str, np.ndarray]:
    return {scenario: returns(agents.make("serial"), scenario) for scenario in scenario_names()}


def cases() -> list[tuple[type[Adversary], str]]:
    """Every adversary on every scenario that has what it farms."""
    loops = [scenario for scenario in scenario_names() if starvable(build(scenario)).any()]
    return [(a, s) for a in ADVERSARIES for s in (loops if a is StarvesTheLoop else scenario_names())]


@pytest.mark.parametrize(("adversary", "scenario"), cases(), ids=lambda part: getattr(part, "__name__", part))
def test_farming_loses_against_serial(adversary, scenario, serial):
    assert returns(adversary(), scenario).mean() < serial[scenario].mean()


@pytest.mark.parametrize("scenario", scenario_names())
def test_always_waiting_loses_against_random(scenario):
    assert returns(Waits(), scenario).mean() < returns(agents.make("random"), scenario).mean()
