import re
from html.parser import HTMLParser

import pytest

from eval.metrics import deadline_streams
from eval.report import make_report
from eval.summary import stream_frame, summary_frame
from eval.table import interval_text, number, percent, results_table, trade_off_markdown
from eval.theme import COLOURS, MARKERS, scheduler_slots

NAMES = ("random", "serial", "slack_gate")


@pytest.fixture(scope="module")
def summary(short_outcomes):
    return summary_frame(short_outcomes)


@pytest.fixture(scope="module")
def page(short_plan, short_outcomes, summary):
    return make_report(short_plan, short_outcomes, summary, stream_frame(short_outcomes)).html


def test_opens_offline(page):
    assert not re.search(r"<link|<img|@import|url\(\s*['\"]?http|\bsrc=|\bfetch\(|import\(", page)
    assert set(re.findall(r'https?://[^"\s]+', page)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}


def test_is_well_formed_and_no_id_occurs_twice(page):
    open_tags, ids = [], []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            ids.extend(value for name, value in attrs if name == "id")
            if tag not in ("meta",):
                open_tags.append(tag)

        def handle_startendtag(self, tag, attrs):
            ids.extend(value for name, value in attrs if name == "id")

        def handle_endtag(self, tag):
            assert open_tags.pop() == tag

    Reader().feed(page)
    assert open_tags == []
    assert len(ids) == len(set(ids))


def test_holds_the_numbers_of_the_csv(page, summary):
    for _, row in summary.iterrows():
        for text in (number(row["return_mean"], 1), number(row["throughput"], 3), percent(row["miss_rate"], 2)):
            assert f"<td>{text}" in page


@pytest.mark.parametrize("name", NAMES)
def test_every_scheduler_has_its_marks_in_every_chart(page, name):
    assert f'id="s0-trade-off-point-{name}"' in page
    for engine in ("hvx", "hmx", "dma"):
        assert f'id="s0-busy-bar-{engine}-{name}"' in page


def test_a_latency_curve_for_whoever_finished_jobs(page, short_outcomes):
    tables = short_outcomes[0].tables
    for stream in deadline_streams(tables):
        for outcome in short_outcomes:
            drawn = f'id="s0-latency-{stream}-curve-{outcome.scheduler}"' in page
            assert drawn == (outcome.latency_ns(stream).size > 0)
    assert page.count("-curve-slack_gate") > 1


def test_bars_are_as_long_as_the_shares(page, summary):
    widths = {}
    for name in NAMES:
        mark = rf'id="s0-busy-bar-dma-{name}"><title>[^<]*</title>'
        path = re.search(rf'{mark}\s*<path d="M ([\d.]+) [\d.]+\s*L ([\d.]+)', page)
        widths[name] = float(path[2]) - float(path[1])
    shares = summary.set_index("scheduler")["dma_busy"]
    for name in NAMES:
        assert widths[name] / widths["serial"] == pytest.approx(shares[name] / shares["serial"], rel=1e-3)


def test_says_how_to_repeat_it(page):
    assert "python -m eval --scenario camera_decode" in page
    assert "numba" in page
    assert "prefers-color-scheme: dark" in page


def test_light_colours_are_told_apart_by_value():
    assert len({light for light, _ in COLOURS.values()}) == len(COLOURS)


def test_schedulers_keep_their_colours_and_strangers_take_free_ones():
    few, many = scheduler_slots(["serial", "learned"]), scheduler_slots(["a", "serial", "b", "learned", "edf"])
    assert {name: many[name] for name in few} == few
    assert len(set(many.values())) == 5
    assert set(scheduler_slots([str(i) for i in range(20)]).values()) == set(range(len(MARKERS)))


def test_terminal_table_folds_only_when_narrow(short_outcomes, summary):
    streams = stream_frame(short_outcomes)
    wide, narrow = (results_table("camera_decode", summary, streams, width) for width in (400, 80))
    assert not any("\n" in str(cell) for column in wide.columns for cell in column.cells)
    assert any("\n" in str(cell) for column in narrow.columns for cell in column.cells)
    assert list(wide.columns[0].cells) == list(NAMES)


def test_markdown_has_a_row_a_scheduler(summary):
    lines = trade_off_markdown(summary).splitlines()
    assert len(lines) == 2 + len(NAMES) + 2
    assert lines[-1] == "*4 episodes a scheduler and scenario (a published table has at least 100)*"
    assert len({line.count("|") for line in lines[:-2]}) == 1
    assert lines[3].startswith("| camera_decode | serial |")


def test_interval_of_a_point_is_the_value_alone():
    assert interval_text(1.0, 1.0, 1.0) == "1.0"
    assert interval_text(1.0, 0.5, 1.5) == "1.0 [0.5, 1.5]"
    assert number(float("nan"), 2) == "-"
