from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.errors import ConfigError
from hexenv.logs import Batch, Event, Hardware, Log, Tensor, Window, parse, read_log
from tests.logs import samples


def read(text: str) -> Log:
    return parse(text.splitlines(keepends=True))


def test_synchronous_layout_has_shapes_but_no_types() -> None:
    first, second = read(samples.SYNCHRONOUS).ops
    assert (first.layout, first.session, first.name) == (1, "HTP0", "MUL_MAT")
    assert first.inputs == (Tensor("leaf_0", (4096, 4096, 1, 1)), Tensor("leaf_1", (4096, 64, 1, 1)))
    assert first.output == Tensor("q_proj", (4096, 64, 1, 1))
    assert (first.usec, first.cycles, second.usec) == (5053, 10672609, 4972)


def test_first_operator_profiler() -> None:
    (op,) = read(samples.EARLY).ops
    assert (op.layout, op.usec, op.cycles) == (1, 145, 306240)
    assert op.inputs[0] == Tensor("blk.0.ffn_up.weight", (2048, 6144, 1, 1), "q4_0")


def test_layout_with_colons() -> None:
    log = read(samples.COLONS)
    norm, add = log.ops
    assert (norm.layout, norm.name, norm.usec, norm.kernel) == (2, "RMS_NORM+MUL", 5, "")
    assert add.output == Tensor("c", (64, 2, 3, 1), "f32")
    assert log.batches == (Batch(4, "HTP0", 535, 17759, 18716),)
    assert log.events == (Event(3, "HTP0", "HVX_COMP", 0, 3, True, 77),)


def test_layout_with_pipes() -> None:
    log = read(samples.PIPES)
    (op,) = log.ops
    assert (op.layout, op.kernel, op.usec, op.start) == (3, "hmx-tiled", 435, 1)
    assert op.dims == "2048:6144 x 2048:30 -> 6144:30 : q8_0 x f32 -> f32"
    assert log.batches == (Batch(1, "HTP0", 2, 700),)
    assert log.events == (Event(3, "HTP0", "HVX_COMP", 0, 0, False, 1050),)


def test_session_lines() -> None:
    log = read(samples.SESSION)
    assert log.hardware == (Hardware(1, "HTP0", 6, 6, 1, 8 << 20),)
    assert log.windows == (Window(2, "HTP0", 1024, 3355443200),)


def test_everything_is_counted_once() -> None:
    log = read(samples.ALL + "ggml-hex: HTP0 hwinfo: threads 6, hvx 6, hmx 1, vtcm 8 MB")
    assert log.counts == {"read": 12, "foreign": 1, "unknown": 1, "damaged": 1, "cut": 1}
    assert log.lines == sum(log.counts.values())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("435", "43"),
        ("845450", "8454"),
        ("2048:30 ->", "->"),
        ("q8_0 x ", ""),
        ("2048:6144", "2048:0"),
        ("|q8", "|x|q8"),
    ],
)
def test_a_message_that_contradicts_itself_is_damaged(old: str, new: str) -> None:
    assert old in samples.PIPES
    log = read(samples.PIPES.replace(old, new))
    assert not log.ops
    assert log.counts["damaged"] == 1


def test_optional_operands_and_colours() -> None:
    text = (
        "\x1b[33mggml-hex: HTP1 profile-op ROPE|q x pos x NONE -> r|128:16:4:1 x 4:1 x NONE -> 128:16:4:1|"
        "f32 x i32 x NONE -> f32|s|----|usec 0 cycles 12 start 4294967295 mhz 0.0\x1b[0m\r\n"
    )
    (op,) = read(text).ops
    assert op.inputs[2] is None
    assert (op.kernel, op.usec, op.start) == ("", 0, 4294967295)


def content(log: Log) -> Counter[object]:
    """Records without their place."""
    records = (*log.ops, *log.batches, *log.events, *log.hardware, *log.windows)
    return Counter(replace(record, line=0) for record in records)


WHOLE = content(read(samples.ALL))
PLACES = st.integers(0, len(samples.ALL))
FOREIGN = st.text(st.characters(codec="utf-8", exclude_characters="\n\r"), max_size=60).map(lambda text: text + "\n")


@given(PLACES, PLACES)
def test_a_cut_log_gives_a_part_of_the_whole(a: int, b: int) -> None:
    assert content(read(samples.ALL[min(a, b) : max(a, b)])) <= WHOLE


@given(st.lists(st.tuples(PLACES, FOREIGN), max_size=4))
def test_lines_of_other_programs_anywhere_only_take_messages_away(strays: list[tuple[int, str]]) -> None:
    text = samples.ALL
    for place, stray in sorted(strays, reverse=True):
        text = text[:place] + stray + text[place:]
    assert content(read(text)) <= WHOLE


@given(st.lists(st.tuples(PLACES, st.sampled_from(samples.PIPES.splitlines(keepends=True))), max_size=6))
def test_a_second_writer_between_torn_lines_adds_only_what_it_wrote(written: list[tuple[int, str]]) -> None:
    text = samples.ALL
    for place, line in sorted(written, reverse=True):
        text = text[:place] + line + text[place:]
    assert content(read(text)) <= WHOLE + content(read("".join(line for _, line in written)))


@given(st.lists(st.integers(0, 400), min_size=1, max_size=30))
def test_torn_lines_of_two_writers_are_all_accounted_for(sizes: list[int]) -> None:
    left, right, text = samples.ALL, samples.PIPES * 3, ""
    for size in sizes:
        text, left = text + left[:size], left[size:]
        text, right = text + right[:size], right[size:]
    log = read(text + left + right)
    assert sum(log.counts.values()) >= log.lines
    assert log.counts.get("read", 0) == sum(content(log).values())


@given(st.lists(st.tuples(PLACES, st.text(max_size=3)), min_size=1, max_size=8))
def test_damage_of_any_kind_is_counted_not_raised(wounds: list[tuple[int, str]]) -> None:
    text = samples.ALL
    for place, wound in wounds:
        text = text[:place] + wound + text[place + 1 :]
    log = read(text)
    assert log.counts.get("read", 0) == sum(content(log).values())
    for ops in log.executions():
        assert ops


@given(st.binary(max_size=400))
def test_bytes_of_any_kind_are_read(tmp_path_factory: pytest.TempPathFactory, garbage: bytes) -> None:
    path = tmp_path_factory.mktemp("log") / "log.txt"
    path.write_bytes(garbage + b"\n" + samples.ALL.encode() + garbage)
    assert content(read_log(path)) >= WHOLE


def test_a_missing_file_is_one_error() -> None:
    with pytest.raises(ConfigError, match=r"log none\.txt: cannot be read \(No such file"):
        read_log(Path("none.txt"))


def test_executions_end_at_batches_and_where_an_operator_recurs() -> None:
    step = samples.COLONS
    assert [len(ops) for ops in read(step + step).executions()] == [2, 2]
    assert [len(ops) for ops in read(samples.SYNCHRONOUS).executions()] == [1, 1]
    ops = [line for line in step.splitlines(keepends=True) if "profile-op" in line]
    other = [line.replace("HTP0", "HTP1") for line in ops]
    mixed = read("".join([*ops, ops[0], other[0], ops[1], other[1]]))
    assert [[op.session for op in ops] for ops in mixed.executions()] == [["HTP0"] * 2, ["HTP0"] * 2, ["HTP1"] * 2]
