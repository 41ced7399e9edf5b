"""Look-ahead: what it finds, that it knows no future, and that it repeats whatever the batch."""

import numpy as np
import pytest

import agents
from agents.paired import slack_gate
from agents.search import LookAhead, Search
from agents.triage import TriageGate
from hexenv.engine import Simulator, episode_key
from hexenv.engine.layout import Arrival, Mode, Phase, Tables
from tests.agents.test_play import toy_mix
from tests.engine.toy import Kernel, Source, action, one, toy_tables

BASE = TriageGate(100.0)
SMALL = {"budget": 200, "span_us": 1000.0, "rules": (BASE,), "doubt": 0.25}


def keys(batch: int) -> np.ndarray:
    return np.array([episode_key(seed, 0) for seed in range(batch)], np.uint64)


def noisy_mix() -> Tables:
    """Every kind of chance: a camera with jitter and a random phase, random prompts, host gaps, noisy durations."""
    camera = Source(
        (one(Kernel(tiles=20, hvx=800.0)),) * 3, Arrival.PERIODIC, period=1500.0, deadline=1400.0, jitter=200.0,
        offset=-0.001, queue=2,
    )  # fmt: skip
    prompts = Source((one(Kernel(tiles=20, hmx=200.0), version=1),) * 4, Arrival.POISSON, period=2000.0, queue=3)
    chat = Source(
        (one(Kernel(tiles=20, hmx=100.0), version=1),) * 2, Arrival.CLOSED_LOOP, gap=300.0, jitter=100.0, offset=0.0,
        deadline=2000.0, firm=False,
    )  # fmt: skip
    return toy_tables(camera, prompts, chat, noise=0.1, horizon_ns=20_000_000, wait_max_ns=200_000)


def search_small(**settings) -> Search:
    return Search("search", **{**SMALL, **settings})


def play(scheduler: agents.Scheduler, tables: Tables, batch: int) -> Simulator:
    simulator = Simulator(tables, batch)
    simulator.reset(keys(batch))
    scheduler.start(tables, batch, 0)
    scheduler.attach(simulator)
    while not (over := simulator.lanes["over"]).all():
        simulator.step(scheduler.act(simulator.views, simulator.masks), where=~over)
    return simulator


def outcome(simulator: Simulator) -> list[list[object]]:
    fields = ("decisions", "credit_ns", "charge_ns", "busy_hvx_ns", "missed")
    return [[lane[field].tolist() for field in fields] for lane in simulator.lanes]


def states(simulator: Simulator, labels: int):
    """Decisions along an episode of lane 0 under random play."""
    rng = np.random.default_rng(3)
    while labels > 0 and not simulator.lanes["over"][0]:
        labels -= 1
        yield
        for _ in range(5):
            if not simulator.lanes["over"][0]:
                legal = np.flatnonzero(simulator.masks[0])
                simulator.step(np.full(simulator.batch, rng.choice(legal)), where=np.arange(simulator.batch) == 0)


def test_the_past_alone_decides():
    """Lanes that share the past but no future: labels are equal to the last bit; those of the oracle differ."""
    simulator = Simulator(noisy_mix(), 2)
    simulator.reset(keys(2))
    planner, oracle = (LookAhead(simulator.tables, exact=exact, **SMALL) for exact in (False, True))
    phases, differ = set(), 0
    for _ in states(simulator, 60):
        phases |= set(simulator.lanes["slots"]["phase"][0].tolist())
        found, known = [], []
        for key in (None, 11, 12):
            simulator.fork(0, 1)
            simulator.fork(1, 0, reseed=key)
            found.append(planner.label(simulator, np.array([0])))
            known.append(oracle.label(simulator, np.array([0])).advantages.tobytes())
            simulator.fork(1, 0)
        assert len({labels.actions[0] for labels in found}) == 1
        for labels in found[1:]:
            np.testing.assert_array_equal(labels.advantages, found[0].advantages)
        differ += len(set(known)) > 1
    assert phases >= {int(Phase.FREE), int(Phase.PENDING), int(Phase.BODY)}
    assert differ > 15


def test_a_plan_changes_nothing():
    simulator = Simulator(noisy_mix(), 2)
    simulator.reset(keys(2))
    before = [array.tobytes() for array in (simulator.lanes, simulator.views, simulator.masks)]
    LookAhead(simulator.tables, **SMALL).label(simulator)
    assert [array.tobytes() for array in (simulator.lanes, simulator.views, simulator.masks)] == before


def test_lanes_do_not_depend_on_the_batch():
    tables = noisy_mix()
    whole = outcome(play(search_small(), tables, 3))
    assert whole == outcome(play(search_small(), tables, 3))
    assert outcome(play(search_small(), tables, 1)) == whole[:1]


def test_threads_and_order_do_not_matter():
    simulator = Simulator(noisy_mix(), 5)
    simulator.reset(keys(5))
    alone, parts = (LookAhead(simulator.tables, threads=threads, **SMALL) for threads in (1, 2))
    first, second = alone.label(simulator), parts.label(simulator)
    np.testing.assert_array_equal(first.advantages, second.advantages)
    some = alone.label(simulator, np.array([4, 1]))
    np.testing.assert_array_equal(some.advantages, first.advantages[[4, 1]])
    assert some.actions.tolist() == first.actions[[4, 1]].tolist()


@pytest.mark.parametrize("rule", [slack_gate(100.0), TriageGate(100.0)], ids=lambda rule: rule.name)
def test_labels_name_legal_actions_and_start_from_the_base_rule(rule):
    simulator = Simulator(noisy_mix(), 4)
    simulator.reset(keys(4))
    rule.start(simulator.tables, 4, 0)
    planner = LookAhead(simulator.tables, **{**SMALL, "rules": (rule,)})
    for _ in states(simulator, 20):
        labels = planner.label(simulator)
        tried = ~np.isnan(labels.advantages)
        assert (simulator.masks | ~tried).all()
        assert simulator.masks[np.arange(4), labels.actions].all()
        base = rule.act(simulator.views, simulator.masks)
        assert (labels.advantages[np.arange(4), base] == 0.0).all()
        assert (labels.advantages[np.arange(4), labels.actions] >= 0.0).all()
        assert ((labels.spent > 0) == (tried.sum(1) > 1)).all()


@pytest.mark.parametrize(("due", "searches"), [(1100.0, True), (900.0, False)])
def test_where_the_triage_lets_a_deadline_go_its_choice_stands(due, searches):
    """Two frames of 500 us each: both can be met before the first deadline, only one before the second one."""
    frames = [Source((one(Kernel(tiles=10, hvx=2000.0)),), Arrival.PERIODIC, period=1e6, deadline=due, offset=0.0)] * 2
    simulator = Simulator(toy_tables(*frames, horizon_ns=4_000_000, wait_max_ns=200_000), 1)
    simulator.reset(keys(1))
    assert LookAhead(simulator.tables, **{**SMALL, "rules": (slack_gate(100.0),)}).label(simulator).spent[0] > 0
    labels = LookAhead(simulator.tables, **SMALL).label(simulator)
    assert (labels.spent[0] > 0) == searches
    assert simulator.masks[0, labels.actions[0]]
    assert (np.count_nonzero(~np.isnan(labels.advantages)) > 1) == searches


def test_more_budget_means_more_rollouts():
    simulator = Simulator(noisy_mix(), 1)
    simulator.reset(keys(1))
    spent = [
        int(LookAhead(simulator.tables, **{**SMALL, "budget": budget}).label(simulator).spent[0])
        for budget in (100, 400, 1600)
    ]
    assert spent[0] < spent[1] < spent[2]
    assert 1600 <= spent[2] < 3200


def test_it_sees_what_the_base_rule_does_not():
    """The gate starts best-effort work that outlasts a camera's deadline; the camera is known, its arrival is near.

    A stage runs to its end, so only waiting for the frame keeps its deadline.
    """
    camera = Source((one(Kernel(tiles=10, hvx=1600.0)),), Arrival.PERIODIC, period=5000.0, deadline=600.0, offset=100.0)
    filler = Source((one(Kernel(tiles=1, hvx=3600.0)),))
    tables = toy_tables(camera, filler, horizon_ns=4_000_000, wait_max_ns=200_000, mode=Mode.SERIAL)
    base = play(BASE, tables, 1).lanes
    found = play(search_small(span_us=2000.0, doubt=0.01, speed=1.0), tables, 1).lanes
    assert base["missed"].sum() == 1
    assert found["missed"].sum() == 0
    assert found["credit_ns"].sum() > base["credit_ns"].sum()


def test_search_beats_its_base_rule_and_reports_what_it_spent():
    tables = toy_mix(Mode.FUSED)
    base = play(BASE, tables, 4).lanes
    scheduler = search_small()
    found = play(scheduler, tables, 4).lanes

    def returns(lanes):
        return lanes["credit_ns"] - lanes["charge_ns"]

    assert returns(found).sum() > returns(base).sum()
    assert scheduler.decisions == found["decisions"].sum()
    assert scheduler.spent >= SMALL["budget"] * scheduler.decisions / 2


def test_the_oracle_knows_the_future():
    """A frame comes right after a long stage could start, or never: only exact forks can tell."""
    filler = Source((one(Kernel(tiles=1, hvx=3600.0)),))
    simulator_actions = []
    for first in (100.0, 3000.0):
        camera = Source((one(Kernel(tiles=10, hvx=1600.0)),), Arrival.POISSON, period=1e6, deadline=600.0, offset=first)
        tables = toy_tables(camera, filler, horizon_ns=4_000_000, wait_max_ns=200_000, mode=Mode.SERIAL)
        simulator = Simulator(tables, 1)
        simulator.reset(keys(1))
        settings = {**SMALL, "span_us": 2000.0, "doubt": 0.01, "speed": 1.0}
        simulator_actions.append(
            [int(LookAhead(tables, exact=exact, **settings).label(simulator).actions[0]) for exact in (True, False)]
        )
    (near_oracle, near_search), (far_oracle, far_search) = simulator_actions
    assert near_oracle == 0
    assert far_oracle == action(0)
    assert near_search == far_search


def test_without_a_simulator_it_says_what_to_do():
    scheduler = agents.make("search")
    tables = toy_mix(Mode.FUSED)
    scheduler.start(tables, 1, 0)
    with pytest.raises(RuntimeError, match="attach"):
        scheduler.act(np.empty(0), np.empty(0))


def test_names():
    assert agents.make("search", budget=300).name == "search"
    assert agents.make("oracle").name == "oracle"
    assert not {"search", "oracle"} & set(agents.names())
