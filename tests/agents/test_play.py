"""Every rule and the shipped policy in whole episodes: what they buy on toy mixes, and that their choices are legal."""

from dataclasses import replace

import numpy as np
import pytest

import agents
from agents.scheduler import Scheduler
from hexenv.engine import Simulator, episode_key
from hexenv.engine.layout import Arrival, Mode, Tables
from hexenv.workload import build, scenario_names
from hexenv.workload.scenario import CONTEXT_SPLITS, HMX_LOCKS, MODES, VTCM_SPLITS
from tests.engine.toy import Kernel, Source, Work, one, toy_tables

NAMES = (*agents.names(), "learned_gate")


def play(scheduler: Scheduler, tables: Tables, seeds: range) -> Simulator:
    """Play one episode a seed to its end; the simulator refuses illegal actions."""
    simulator = Simulator(tables, batch=len(seeds))
    simulator.reset(np.array([episode_key(seed, 0) for seed in seeds], np.uint64))
    scheduler.start(tables, len(seeds), seeds.start)
    while not (over := simulator.lanes["over"]).all():
        simulator.step(scheduler.act(simulator.views, simulator.masks), where=~over)
    return simulator


def outcome(simulator: Simulator) -> list[list[object]]:
    """What must repeat, lane by lane: credit and charge to the last bit, and all counts."""
    fields = ("decisions", "credit_ns", "charge_ns", "busy_ddr_ns", "busy_hvx_ns", "busy_hmx_ns", "due", "missed")
    return [[lane[field].tolist() for field in fields] for lane in simulator.lanes]


def toy_mix(mode: Mode) -> Tables:
    """A firm camera on HVX, best-effort HMX work, and work that is fastest on HMX but has an HVX version."""
    closed = {"arrival": Arrival.CLOSED_LOOP, "offset": 0.0}
    camera = Source((one(Kernel(tiles=20, hvx=800.0)),) * 3, Arrival.PERIODIC, period=1500.0, deadline=1400.0, queue=2)
    prefill = Source((one(Kernel(tiles=20, hmx=200.0), version=1),) * 4, **closed)
    either = {(1, 0): Kernel(tiles=20, hmx=100.0), (0, 0): Kernel(tiles=20, hvx=480.0)}
    decode = Source((Work(either),) * 2, deadline=2000.0, firm=False, gap=300.0, **closed)
    return toy_tables(camera, prefill, decode, mode=mode, horizon_ns=50_000_000, wait_max_ns=200_000)


SETTINGS = {"mode": MODES, "hmx_lock": HMX_LOCKS, "vtcm_split": VTCM_SPLITS, "context_split": CONTEXT_SPLITS}


def under(tables: Tables, overrides: dict[str, str]) -> Tables:
    """The same tables under a scheduler's engine settings, without compiling the scenario again."""
    config = tables.config.copy()
    for key, value in overrides.items():
        config[key] = SETTINGS[key][value]
    return replace(tables, config=config)


@pytest.fixture(scope="module")
def toy():
    """Final lanes of the toy mix by scheduler."""

    def run(name: str) -> np.ndarray:
        scheduler = agents.make(name)
        return play(scheduler, toy_mix(MODES[scheduler.overrides["mode"]]), range(4)).lanes.copy()

    return {name: run(name) for name in agents.names()}


def test_throughput_grows_with_pairing_and_with_versions(toy):
    credit = {name: lanes["credit_ns"].mean() for name, lanes in toy.items()}
    assert credit["serial"] < credit["greedy_pair"]
    assert credit["edf"] < credit["greedy_pair"] < credit["greedy_versions"]


def test_the_gate_misses_no_more_than_greedy_and_gains_on_serial(toy):
    missed = {name: lanes["missed"].sum() for name, lanes in toy.items()}
    credit = {name: lanes["credit_ns"].mean() for name, lanes in toy.items()}
    assert missed["slack_gate"] <= missed["greedy_versions"]
    assert credit["slack_gate"] > credit["edf"]


def test_deadline_order_misses_less_than_arrival_order(toy):
    assert toy["edf"]["missed"].sum() < toy["serial"]["missed"].sum()


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("name", NAMES)
def test_every_rule_plays_in_every_mode(name, mode):
    lanes = play(agents.make(name), toy_mix(mode), range(2)).lanes
    assert (lanes["finished"].sum(axis=1) > 0).all()


def test_settings_do_not_change_what_is_compiled():
    settings = {"mode": "concurrent", "hmx_lock": "op", "vtcm_split": "static", "context_split": "static"}
    short = {"horizon_us": 15_000}
    patched, compiled = under(build("camera_decode", **short), settings), build("camera_decode", **short, **settings)
    assert all(np.array_equal(a, b) for a, b in zip(patched.arrays, compiled.arrays, strict=True))


@pytest.mark.parametrize("scenario", scenario_names())
@pytest.mark.parametrize("name", NAMES)
def test_every_rule_plays_every_scenario(name, scenario):
    scheduler = agents.make(name)
    tables = under(build(scenario, horizon_us=15_000), scheduler.overrides)
    first, again = (outcome(play(scheduler, tables, range(2))) for _ in range(2))
    assert first == again
    assert outcome(play(scheduler, tables, range(1, 2))) == first[1:2]
    assert all(credit != 0 for _, credit, *_ in first)
