import numpy as np
import pytest

from eval.theme import inline_svg, styled
from eval.timeline import Take, Window, choose_window, draw, most_different, utilisation
from hexenv.engine.layout import Event


def test_utilisation_spreads_segments_and_leaves_gaps_empty(record):
    trace = np.concatenate(
        [
            record(Event.SEGMENT, 0, 100, value=100.0, value2=200.0, value3=0.0),
            record(Event.SEGMENT, 100, 200, value=0.0, value2=400.0, value3=25.0),
        ]
    )
    window = Window(0.0, 300.0)
    thirds = [utilisation(trace, window, engine, 4).reshape(3, -1).mean(axis=1) for engine in ("dma", "hvx", "hmx")]
    assert np.allclose(thirds, [[1.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.25, 0.0]])


def test_window_holds_the_first_deadline_that_only_one_misses(record):
    launches = [record(Event.LAUNCH, 10 * i, 10 * i + 10) for i in range(1000)]
    shared = record(Event.MISS, 3000)
    alone = record(Event.MISS, 8000)
    takes = [
        Take("a", None, np.concatenate([*launches, shared])),
        Take("b", None, np.concatenate([*launches, shared, alone])),
    ]
    window = choose_window(takes)
    assert window.start_ns < 8000 < window.end_ns
    assert window.start_ns > 3000


def test_most_different_episode(outcome_of):
    left, right = outcome_of("a", [1.0, 2.0, 9.0]), outcome_of("b", [1.0, 0.0, 9.5])
    assert most_different(left, right) == 1
    right.episodes.loc[2, "misses"] = 3
    assert most_different(left, right) == 2


def test_svg_follows_the_page_and_its_ids_are_unique(record, toy_tables):
    toy_tables.variants = np.zeros(1, [("version", np.int8)])
    trace = np.concatenate([record(Event.LAUNCH, 0, 500, stream=1, slot=0), record(Event.MISS, 400, stream=1)])
    takes = [Take(name, toy_tables, trace) for name in ("one", "two")]
    with styled():
        svg = inline_svg(draw(takes, Window(0.0, 1000.0)), "t", 'a "quoted" name')
    assert "var(--stream-1)" in svg
    assert "var(--miss)" in svg
    assert 'aria-label="a &quot;quoted&quot; name"' in svg
    assert 'id="figure_1"' not in svg
    assert svg.count(">V<") == 2
    assert "one: finished jobs 0, missed deadlines 1" in svg


@pytest.mark.parametrize("engine", ["hvx", "hmx", "dma"])
def test_no_segments_no_use(record, engine):
    assert utilisation(record(Event.MISS, 1), Window(0.0, 10.0), engine, 4).sum() == 0.0
