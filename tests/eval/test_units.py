import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import agents
from agents.scheduler import Scheduler
from eval import play, units
from eval.__main__ import main
from eval.episodes import held_out
from eval.identity import scheduler_hash
from eval.play import run
from eval.runner import Plan, check, play_all
from eval.summary import episode_frame, stream_frame, summary_frame
from eval.units import cut, play_units
from hexenv.errors import ConfigError
from hexenv.files import csv_text
from hexenv.workload import build


class FirstLegal(Scheduler):
    """A scheduler that the registry does not know."""

    name = "first_legal"

    def __init__(self, wait=False):
        self.overrides = {}
        self.wait = wait

    def start(self, tables, batch, seed):
        self.started = True

    def act(self, views, masks):
        return np.where(masks[:, 1:].any(axis=1) & (not self.wait), 1 + masks[:, 1:].argmax(axis=1), 0)


@pytest.fixture(scope="module")
def tables():
    return build("camera_decode", "v79", "heldout", horizon_us=20_000.0)


@pytest.fixture
def small(monkeypatch):
    """Units of two episodes."""
    monkeypatch.setattr(play, "LANES", 2)


def kept(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def text(outcomes):
    return csv_text(episode_frame(outcomes))


def test_cores_and_interruptions_change_no_byte(short_plan, short_outcomes, small, tmp_path):
    work = check(short_plan)
    folder = tmp_path / "units"
    both = play_all(short_plan, work, 2, folder)
    assert text(both) == text(short_outcomes)
    files = sorted(folder.iterdir())
    assert len(files) == 6
    # What is left after a kill: some units, a file that was being written, one that a full disk has cut short.
    files[0].unlink()
    files[1].write_text(files[1].read_text()[:-100])
    (folder / f".{files[0].name}.half").write_text("{")
    before = kept(folder)
    again = play_all(short_plan, work, 1, folder)
    assert text(again) == text(short_outcomes)
    assert [log.index[0].tolist() for log in again[0].jobs] == [log.index[0].tolist() for log in both[0].jobs]
    changed = {name for name, written in kept(folder).items() if before.get(name) != written}
    assert changed == {files[0].name, files[1].name}


def test_finished_units_are_not_played_again(tables, small, tmp_path, monkeypatch):
    edf = cut(agents.make("edf"), tables, held_out(tables, 4))
    first = play_units(edf, 1, tmp_path)
    played = []
    monkeypatch.setattr(units, "play_block", lambda *args: played.append(args[3]) or play.play_block(*args))
    assert [block.rows for block in play_units(edf, 1, tmp_path)] == [block.rows for block in first]
    assert played == []
    longer = cut(agents.make("edf"), tables, held_out(tables, 5))
    play_units(longer, 1, tmp_path)
    assert played == [4]


@pytest.mark.parametrize("name", ["random", "slack_gate_tuned", "static_pairs", "orion", "window", "search"])
def test_schedulers_of_every_kind_play_the_same_in_any_cut(name, monkeypatch):
    scheduler = agents.make(name, **({"budget": 100} if name == "search" else {}))
    own = build("camera_decode", "v79", "heldout", **{**scheduler.overrides, "horizon_us": 4000.0})
    episodes = held_out(own, 3)
    whole = run(scheduler, own, episodes)
    monkeypatch.setattr(play, "lanes_of", lambda scheduler: 2)
    assert csv_text(run(scheduler, own, episodes).episodes) == csv_text(whole.episodes)


def test_a_file_is_named_after_all_that_decides_its_content(tables, tmp_path):
    episodes = held_out(tables, 4)
    other_tables = build("camera_decode", "v79", "heldout", horizon_us=20_000.0, miss_weight=3.0)
    gate, other_gate = agents.make("slack_gate", margin_us=500.0), agents.make("slack_gate", margin_us=1000.0)
    names = {
        unit.file(tmp_path)
        for unit in (
            *cut(gate, tables, episodes),
            *cut(gate, tables, episodes[:3]),
            *cut(gate, other_tables, episodes),
            *cut(other_gate, tables, episodes),
            *cut(FirstLegal(), tables, episodes),
            *cut(FirstLegal(wait=True), tables, episodes),
            replace(cut(gate, tables, episodes)[0], place=4),
        )
    }
    assert len(names) == 7
    assert cut(gate, tables, episodes)[0].file(tmp_path) in names


def test_playing_leaves_a_scheduler_as_it_was(tables):
    scheduler = FirstLegal()
    before = scheduler_hash(scheduler)
    play_units(cut(scheduler, tables, held_out(tables, 1)))
    assert scheduler_hash(scheduler) == before


@pytest.mark.parametrize("workers", [0, -2])
def test_refuses_workers_that_are_none(workers, tmp_path, capsys):
    options = ["--scenario", "camera_decode", "--workers", str(workers), "--out", str(tmp_path / "out")]
    assert main(options) == 2
    assert f"workers {workers} is not allowed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_refuses_no_workers_in_code():
    with pytest.raises(ConfigError, match="workers 0"):
        units.require_workers(0)


def _heed_interrupts() -> None:
    """As in a terminal: where the tests themselves run in the background, Ctrl-C is ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_an_interrupted_run_keeps_what_was_played_and_the_next_goes_on(tmp_path, number, code):
    options = ["--scenario", "camera_decode", "--schedulers", "serial,random,slack_gate", "--horizon-us", "40000"]
    options += ["--episodes", "64", "--workers", "2", "--out", str(tmp_path)]
    folder = tmp_path / "units"
    command = [sys.executable, "-m", "eval", *options]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_heed_interrupts
    ) as process:
        while process.poll() is None and not list(folder.glob("*.json")):
            time.sleep(0.01)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does it: to all processes at once
        else:
            process.kill()
        _, error = process.communicate(timeout=60)  # ends when the workers have ended, too
    assert process.returncode == code
    assert "Traceback" not in error
    assert error.endswith("interrupted\n") or number == signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == ["units"]
    before = kept(folder)
    assert 1 <= len(before) < 6
    rules = tuple(agents.make(name) for name in ("serial", "random", "slack_gate"))
    plan = Plan(("camera_decode",), "v79", rules, 64, {"horizon_us": 40_000.0})
    resumed, whole = play_all(plan, check(plan), 1, folder), play_all(plan, check(plan), 1)
    assert before.items() <= kept(folder).items()
    for make in (summary_frame, stream_frame, episode_frame):
        assert csv_text(make(resumed)) == csv_text(make(whole))
