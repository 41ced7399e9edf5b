"""The full report in a real browser: no console message, marks in every chart, numbers of the CSV files, timeline."""

import dataclasses
import html
import json
import re
import shutil
import subprocess
from types import MappingProxyType

import pandas as pd
import pytest

from eval.__main__ import main
from eval.evidence import sensitivity
from hexenv.device import load_device

NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=f"none of {', '.join(NAMES)} on PATH")

RULES = ("serial", "concurrent", "online_pairs", "slack_gate")
MOVED = ("op_us", "ddr_bytes_per_us")
"""Constants that keep their range in the test, so that it is quick."""
SCENARIO = """
description = "feature tracking beside a small preview"
[engine]
horizon_us = 20_000
[mixes]
all = ["tracking", "camera"]
[train]
first_seed = 0
seeds = 10
loads = [1.0]
mixes = ["all"]
[heldout]
first_seed = 100
seeds = 10
loads = [1.0, 1.5]
mixes = ["all"]
[[streams]]
name = "tracking"
arrival = "periodic"
fps = 300
jitter_us = 500
deadline_us = 4_000
late = "firm"
[[streams.jobs]]
model = "vision:features"
[[streams]]
name = "camera"
arrival = "periodic"
fps = 150
deadline_us = 5_000
late = "firm"
[[streams.jobs]]
model = "vision:preview"
height = 1080
width = 1920
"""

PROBE = """
<script>
const root = document.querySelector(".timeline"), view = root.querySelector(".view"), found = {};
const frame = () => new Promise(done => setTimeout(done, 5));
const press = async key => { view.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); await frame(); };
const texts = selector => [...root.querySelectorAll(selector)].map(e => e.textContent);
const span = () => texts("text.label").filter(t => /^[0-9.]+$/.test(t)).map(Number);
const marks = () => root.querySelectorAll("rect.stage").length;
(async () => {
  await frame();
  found.names = texts("text.name");
  found.strips = root.querySelectorAll("path.use").length;
  found.stages = marks();
  await press("Home");
  found.whole = span();
  for (let i = 0; i < 6; i++) await press("+");
  found.zoomed = span();
  for (let i = 0; i < 3; i++) await press("ArrowRight");
  found.moved = span();
  await press(".");
  found.said = root.querySelector("[aria-live]").textContent;
  found.chosen = root.querySelectorAll(".chosen").length;
  const box = root.querySelector("rect.stage").getBoundingClientRect();
  const place = { clientX: box.x + box.width / 2, clientY: box.y + 5, bubbles: true };
  view.dispatchEvent(new PointerEvent("pointermove", place));
  found.tip = root.querySelector(".tip").textContent;
  found.width = document.documentElement.scrollWidth - innerWidth;
  document.body.insertAdjacentHTML("beforeend", `<pre id="found">${JSON.stringify(found).replace(/</g, "&lt;")}</pre>`);
})();
</script>
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A full report of four rules on two short episodes."""
    folder = tmp_path_factory.mktemp("report")
    scenario = folder / "small.toml"
    scenario.write_text(SCENARIO)

    def few_ranges(name):
        device = load_device(name)
        fixed = {
            key: constant if key in MOVED else dataclasses.replace(constant, low=constant.value, high=constant.value)
            for key, constant in device.constants.items()
        }
        return dataclasses.replace(device, constants=MappingProxyType(fixed))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sensitivity, "load_device", few_ranges)
        options = ["--scenario", str(scenario), "--schedulers", ",".join(RULES), "--episodes", "2", "--workers", "1"]
        assert main([*options, "--report", str(folder / "out")]) == 0
    return folder / "out"


def visit(page, width=1280):
    """The page as Chromium leaves it after its scripts, and what it wrote to the console."""
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += ["--disable-background-networking", "--enable-logging=stderr", "--virtual-time-budget=5000"]
    command += [f"--user-data-dir={page.parent / 'profile'}", f"--window-size={width},2000", "--dump-dom"]
    run = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]
    return run.stdout, [line for line in run.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def visited(folder):
    return visit(folder / "report.html")


@pytest.fixture(scope="module")
def charts(visited):
    """Each chart of the page by its name: its HTML."""
    figures = re.findall(r'<figure id="s0-([\w-]+)">(.*?)</figure>', visited[0], re.DOTALL)
    return dict(figures)


def test_no_console_message(visited):
    assert visited[1] == []


def test_all_charts_are_there_and_have_marks(charts):
    expected = {"ladder", "trade-off", "latency-0", "latency-1", "slowdown", "bubbles", "vtcm", "energy", "jit"}
    assert set(charts) == expected | {"decision_cost", "tornado"}
    for name, chart in charts.items():
        drawn = re.findall(r'<g id="[^"]*">(?:<title>[^<]*</title>)\s*<(?:path|g|use|defs)', chart)
        curves = re.findall(r'<g id="[^"]*-curve-[^"]*">\s*<path', chart)
        assert len(drawn) + len(curves) >= 2, name


def rows_of(chart):
    """The numbers below a chart: a list a row, first the headings."""
    table = re.search(r"<table>(.*?)</table>", chart, re.DOTALL)[1]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL)
    return [[html.unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


def test_numbers_below_every_chart_equal_the_csv(charts, folder):
    for name, chart in charts.items():
        source = folder / re.search(r"<code>([\w-]+\.csv)</code>", chart)[1]
        headings, *rows = rows_of(chart)
        frame = pd.read_csv(source, keep_default_na=False, na_values=["nan"])
        if name.startswith("latency-"):
            own = frame["stream"] == ("tracking", "camera")[int(name[-1])]
            frame = frame[own & frame["scheduler"].isin([row[0] for row in rows])]
        if name == "tornado":
            frame = frame[frame["swing"] > 0.0]
        assert len(rows) == len(frame) > 0, name
        for heading, column in zip(headings, zip(*rows, strict=True), strict=True):
            values = frame[heading.replace(" ", "_")]
            for cell, value in zip(column, values, strict=True):
                if cell == "-":
                    assert pd.isna(value)
                elif isinstance(value, str):
                    assert cell == value
                else:
                    assert float(cell) == pytest.approx(value, rel=1e-3), (name, heading)


def test_notes_on_marks_equal_the_csv(charts, folder):
    ladder = pd.read_csv(folder / "ladder.csv").set_index("scheduler")
    for name in RULES:
        note = re.search(rf'id="s0-ladder-rung-{name}"><title>{name}: return ([-\d.]+)', charts["ladder"])[1]
        assert float(note) == pytest.approx(ladder.loc[name, "return"], abs=0.051)
    bound = pd.read_csv(folder / "bounds.csv")
    note = re.search(r"throughput above ([\d.]+), whatever", charts["trade-off"])[1]
    assert float(note) == pytest.approx(bound["throughput"].iloc[0], abs=6e-4)
    summary = pd.read_csv(folder / "summary.csv")
    assert (summary["throughput"] <= bound["throughput"].iloc[0]).all()
    assert (summary["return_mean"] <= bound["return"].iloc[0]).all()


@pytest.mark.parametrize("width", [390, 1280])
def test_timeline_zooms_moves_and_explains_by_keyboard_and_pointer(folder, width):
    page = folder / f"probe{width}.html"
    frame = (
        f'<iframe id="inner" srcdoc="{html.escape(_probed(folder))}" style="width:{width}px;height:2000px"></iframe>'
    )
    page.write_text(f"<body style='margin:0'>{frame}{_COPY}")
    dom, console = visit(page)
    assert console == []
    found = json.loads(html.unescape(re.search(r'<pre id="copied">({.*?})</pre>', dom, re.DOTALL)[1]))
    assert len(found["names"]) == 2
    assert found["strips"] == 8  # four a scheduler
    assert found["stages"] > 10
    assert found["whole"][0] == 0.0
    assert found["whole"][-1] >= 10.0  # of 20 ms
    assert 0.0 < found["zoomed"][-1] - found["zoomed"][0] < 2.0
    assert found["moved"][0] > found["zoomed"][0]
    assert re.search(r"(HVX|HMX|hybrid), slot \d, \d+ contexts, VTCM \d+ KiB, [\d.]+ ms for [\d.]+ us", found["said"])
    assert found["chosen"] == 1
    assert found["tip"].startswith(tuple(f"{name}: " for name in found["names"]))
    assert found["width"] <= 0  # nothing sticks out to the right


_COPY = """<script>
const copy = () => {
  const found = document.getElementById("inner").contentDocument.getElementById("found");
  if (!found) setTimeout(copy, 50);
  else document.body.insertAdjacentHTML("beforeend", `<pre id="copied">${found.innerHTML}</pre>`);
};
copy();
</script>"""


def _probed(folder):
    """The page with a script that presses keys. Frames come at once: without a screen the browser draws few."""
    page = (folder / "report.html").read_text(encoding="utf-8")
    page = page.replace("<head>", "<head><script>window.requestAnimationFrame = draw => setTimeout(draw, 0);</script>")
    return page.replace("</body>", f"{PROBE}</body>")


def test_leaves_pictures_tables_and_a_summary(folder):
    stems = {path.stem for path in (folder / "charts").iterdir()}
    assert {"small-ladder", "small-trade-off", "small-timeline", "small-tornado"} <= stems
    for stem in stems:
        assert (folder / "charts" / f"{stem}.png").read_bytes().startswith(b"\x89PNG")
        assert "var(" not in (folder / "charts" / f"{stem}.svg").read_text()
    text = (folder / "summary.md").read_text()
    assert "On small, " in text
    assert "Does the ranking hold?" in text
    assert "| legal concurrency | `concurrent` |" in text
    assert (folder / "report.html").stat().st_size < 5e6


def test_parquet_holds_what_the_csv_holds(folder):
    pytest.importorskip("pyarrow")
    for path in folder.glob("*.parquet"):
        frame, text = pd.read_parquet(path), pd.read_csv(path.with_suffix(".csv"))
        assert list(frame.columns) == list(text.columns)
        assert len(frame) == len(text)


def test_sensitivity_tries_each_constant_with_a_range(folder):
    frame = pd.read_csv(folder / "sensitivity.csv").set_index("constant")
    assert set(frame.index) == {"(as given)", *MOVED}
    assert frame.loc["ddr_bytes_per_us", "swing"] > 0.0
    assert frame.loc["ddr_bytes_per_us", "best_low"] <= frame.loc["ddr_bytes_per_us", "best_high"]


def test_a_cold_cache_costs_and_a_warm_one_hardly_does(folder):
    frame = pd.read_csv(folder / "jit.csv")
    assert (frame["cold_change"] < 0.0).all()
    assert (frame["warm_change"] > frame["cold_change"]).all()
    assert set(frame["scheduler"]) <= set(RULES) - {"serial", "concurrent"}
    assert len(frame) > 0


def test_report_takes_no_other_folder(tmp_path, capsys):
    assert main(["--report", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "--report" in capsys.readouterr().err
