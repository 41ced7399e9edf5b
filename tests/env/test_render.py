from __future__ import annotations

import numpy as np
import pytest

from hexenv import render
from hexenv.engine.layout import NO_DEADLINE, TRACE, Event
from hexenv.env import HexagonEnv
from hexenv.vector import HexagonVectorEnv


def played(short, mode, steps=60):
    env = HexagonEnv(render_mode=mode, **short)
    _, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(steps):
        info = env.step(env.action_space.sample(info["action_mask"]))[4]
    return env, info


def test_text_shows_clock_tasks_slots_and_vtcm(short):
    env, info = played(short, "ansi")
    text = env.render()
    assert f"t = {info['time_us'] / 1e3:.3f} ms" in text
    view = env.simulator.views[0]
    assert view["n_tasks"] > 0
    for task in view["tasks"][: view["n_tasks"]]:
        assert env.tables.op_names[task["op"]][:30] in text
    assert "slot 0" in text
    assert "slot 1" in text
    held = 8.0 - view["vtcm_free_bytes"] / 2**20
    bar = text.split("VTCM [")[1].split("]")[0]
    assert len(bar) == 64
    assert abs((64 - bar.count(".")) / 8.0 - held) <= 2 / 8.0


def test_picture_has_a_fixed_size_and_shows_progress(short):
    env, _ = played(short, "rgb_array")
    frame = env.render()
    assert frame.shape == (render.HEIGHT, render.WIDTH, 3)
    assert frame.dtype == np.uint8
    env.step(0)
    later = env.render()
    assert later.shape == frame.shape
    assert (later != frame).any()
    later[...] = 0
    assert env.render().any()


def test_no_mode_no_frame(short):
    env = HexagonEnv(**short)
    env.reset(seed=0)
    assert env.render() is None


def test_vector_renders_each(short):
    envs = HexagonVectorEnv(2, render_mode="ansi", **short)
    envs.reset(seed=0)
    frames = envs.render()
    assert len(frames) == 2
    assert all("VTCM" in frame for frame in frames)
    quiet = HexagonVectorEnv(2, **short)
    quiet.reset(seed=0)
    assert quiet.render() is None


@pytest.fixture
def chart(tables):
    """Draws records at an instant."""
    return render.GanttChart(tables).frame


def record(event, t_ms, end_ms=0.0, **fields):
    row = np.zeros(1, TRACE)
    row["event"], row["t_ns"], row["end_ns"] = event, t_ms * 1e6, max(t_ms, end_ms) * 1e6
    for name, value in fields.items():
        row[name] = value
    return row


def changed(chart, *records):
    """Bounding box (top, bottom, left, right) of the pixels that the records draw at 50 ms, in pixels."""
    blank = chart(np.zeros(0, TRACE), 50_000_000)
    rows, columns = np.nonzero((chart(np.concatenate(records), 50_000_000) != blank).any(axis=2))
    return rows.min(), rows.max(), columns.min(), columns.max()


def test_stage_bar_spans_its_time_in_its_slots_row(chart):
    top, bottom, left, right = changed(chart, record(Event.LAUNCH, 10, 20, slot=0))
    width = (950 - 110) / 50
    # The first column of a bar is a white separator.
    assert left == pytest.approx(110 + 10 * width, abs=2)
    assert right == pytest.approx(110 + 20 * width, abs=2)
    below = changed(chart, record(Event.LAUNCH, 10, 20, slot=1))
    assert below[0] > bottom > top


def test_resident_stage_reaches_to_now_and_old_stages_are_not_drawn(chart):
    assert changed(chart, record(Event.LAUNCH, 45, slot=0))[3] == 949
    old = chart(record(Event.LAUNCH, 10, 20, slot=0), 100_000_000)
    assert (old == chart(np.zeros(0, TRACE), 100_000_000)).all()


def test_utilisation_is_as_high_as_the_engine_was_busy(chart, tables):
    contexts = float(tables.config["contexts"][0])
    full = changed(chart, record(Event.SEGMENT, 10, 20, value2=contexts * 10e6))
    half = changed(chart, record(Event.SEGMENT, 10, 20, value2=contexts * 5e6))
    assert half[1] == full[1]
    assert (half[1] - half[0]) == pytest.approx((full[1] - full[0]) / 2, abs=1)
    assert full[2:] == half[2:]


def test_marks_stand_in_their_streams_row(chart):
    first = changed(chart, record(Event.MISS, 25, stream=0))
    second = changed(chart, record(Event.MISS, 25, stream=1))
    assert second[0] > first[1]
    assert first[2:] == second[2:]


def test_deadline_is_drawn_for_jobs_that_have_one(chart):
    box = changed(chart, record(Event.ARRIVE, 0, stream=0, value=20e6))
    assert box[3] == pytest.approx(110 + 20 * (950 - 110) / 50, abs=2)
    best_effort = changed(chart, record(Event.ARRIVE, 0, stream=0, value=NO_DEADLINE))
    assert best_effort[3] == pytest.approx(110, abs=2)
