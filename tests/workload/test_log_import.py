from __future__ import annotations

from pathlib import Path

import pytest

from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.kernels import (
    Copy,
    Elementwise,
    ExpertMatMul,
    FlashAttention,
    GatedDeltaNet,
    LayerNorm,
    MatMul,
    Operator,
    RmsNorm,
    Rope,
    Softmax,
)
from hexenv.logs import LoggedOp, Tensor, parse
from hexenv.workload import build, load_scenario
from hexenv.workload.__main__ import main
from hexenv.workload.experts import routed_rows
from hexenv.workload.log_import import log_graph, map_log
from hexenv.workload.log_operators import NoOperator, map_operator
from tests.logs import made, samples


def tensor(text: str, kind: str = "f32", name: str = "t") -> Tensor:
    sizes = [int(size) for size in text.split(":")]
    first, second, third, fourth = (*sizes, 1, 1, 1)[:4]
    return Tensor(name, (first, second, third, fourth), kind)


def logged(name: str, *operands: str | tuple[str, str]) -> LoggedOp:
    *inputs, output = (tensor(o) if isinstance(o, str) else tensor(*o) for o in operands)
    return LoggedOp(1, 3, "HTP0", name, tuple(inputs), output, "", 10, 20000)


MAPPED: list[tuple[LoggedOp, Operator]] = [
    (logged("MUL_MAT", ("2048:6144", "q4_0"), "2048:30", "6144:30"), MatMul("q4_0", 6144, 30, 2048)),
    (logged("MUL_MAT", ("128:64:8", "f16"), "128:5:16", "64:5:16"), MatMul("f16", 64, 5, 128, 16)),
    (logged("MUL_MAT+ADD", ("64:96", "q8_0"), "64:7", "96:7", "96:7"), MatMul("q8_0", 96, 7, 64)),
    (
        logged("MUL_MAT+MUL_MAT+MUL_MAT", ("64:96", "q4_0"), "64:1", ("64:32", "q4_0"), ("64:32", "q4_0"), "96:1"),
        MatMul("q4_0", 160, 1, 64),
    ),
    (
        logged("MUL_MAT_ID", ("64:96:32", "mxfp4"), "64:4:7", ("4:7", "i32"), "96:4:7"),
        ExpertMatMul("mxfp4", 96, 64, routed_rows(7, 32, 4)),
    ),
    (
        logged("FLASH_ATTN_EXT", "64:1:32", ("64:4096:8", "f16"), ("64:4096:8", "f16"), ("4096:1", "f16"), "64:32"),
        FlashAttention(1, 4096, 32, 8, 64),
    ),
    (
        logged("GATED_DELTA_NET+CPY", "128:16:9", "128:16:9", "128:32:9", "1:32:9", "128:1"),
        GatedDeltaNet(9, 32, 16, 128),
    ),
    (logged("ROPE", "128:16:5", "5:1", "128:16:5"), Rope(5, 16, 128)),
    (logged("RMS_NORM+MUL", "2048:5", "2048:1", "2048:5"), RmsNorm(5, 2048)),
    (logged("NORM", "64:3:2", "64:3:2"), LayerNorm(6, 64)),
    (logged("SOFT_MAX", "32:5", "32:5"), Softmax(5, 32)),
    (logged("SET_ROWS", "1024:5", ("5:1", "i64"), ("1024:4096", "f16")), Copy(5120, 2, "set_rows")),
    (logged("GET_ROWS", "2048:100", ("3:1", "i32"), "2048:3"), Copy(6144, 4, "get_rows")),
    (logged("CPY", "64:2", ("64:2", "f16"), ("64:2", "f16")), Copy(128, 2)),
    (logged("SWIGLU", "128:5", "128:5", "128:5"), Elementwise("swiglu", 640)),
    (logged("CLAMP", "128:5", "128:5"), Elementwise("clip", 640)),
]


@pytest.mark.parametrize(("op", "operator"), MAPPED, ids=lambda value: getattr(value, "name", ""))
def test_operators(op: LoggedOp, operator: Operator) -> None:
    assert map_operator(op) == operator


REFUSED = [
    (logged("SOLVE_TRI", "8:8", "8:8"), "no cost model"),
    (logged("RMS_NORM+ADD", "8:8", "8:8"), "a fusion that the model does not know"),
    (logged("MUL_MAT", ("8:8", ""), ("8:1", ""), ("8:1", "")), "the log has no types: name the format of the weights"),
    (logged("MUL_MAT", "64:64", "64:1", "64:1"), "weights f32 have no cost"),
    (logged("MUL_MAT", ("64:64", "q4_0"), "32:1", "64:1"), "shapes that do not fit"),
    (logged("MUL_MAT", ("64:64", "q4_0"), "64:1"), "operand 1 is missing"),
    (logged("ADD", "64:64", "4000000:4000:4:4"), "a tensor of more than 2147483648 elements"),
]


@pytest.mark.parametrize(("op", "why"), REFUSED, ids=lambda value: getattr(value, "name", ""))
def test_what_has_no_operator_says_why(op: LoggedOp, why: str) -> None:
    with pytest.raises(NoOperator, match=why):
        map_operator(op)


def message(name: str, operands: str, dims: str, types: str) -> str:
    return (
        f"ggml-hex: HTP0 profile-op {name}|{operands}|{dims}|{types}|s|----|usec 10 cycles 20000 start 0 mhz 2000.0\n"
    )


STEP = "".join(
    (
        message("RMS_NORM+MUL", "inp x norm.weight -> n", "64:1 x 64:1 -> 64:1", "f32 x f32 -> f32"),
        message(
            "MUL_MAT+MUL_MAT+MUL_MAT",
            "q.weight x n x k.weight x v.weight -> q",
            "64:64 x 64:1 x 64:32 x 64:32 -> 64:1",
            "q4_0 x f32 x q4_0 x q4_0 -> f32",
        ),
        message("ROPE", "k (reshaped) x pos -> k_rope", "32:1 x 1:1 -> 32:1", "f32 x i32 -> f32"),
        message("SET_ROWS", "k_rope x rows -> cache_k (view)", "32:1 x 1:1 -> 32:256", "f32 x i64 -> f16"),
        message("SOLVE_TRI", "q x n -> solved", "64:1 x 64:1 -> 64:1", "f32 x f32 -> f32"),
        message(
            "FLASH_ATTN_EXT",
            "solved (view) x cache_k (view) x cache_v x NONE -> out",
            "64:1 x 64:256 x 64:256 x NONE -> 64:1",
            "f32 x f16 x f16 x NONE -> f32",
        ),
    )
)


@pytest.fixture
def step(tmp_path: Path) -> Path:
    path = tmp_path / "step.log"
    path.write_text(STEP + STEP, encoding="utf-8")
    return path


def test_graph_follows_tensors_views_and_state(step: Path) -> None:
    graph = log_graph(step, 1, allow_unmapped=True)
    norm, product, rope, append, attention = graph.nodes
    assert graph.name == "step[1]"
    assert graph.state == {"cache_k"}
    assert norm.reads == ("inp", "norm.weight")
    assert product.reads == ("q.weight", "n", "k.weight", "v.weight")
    assert "q" in rope.reads, "k comes out of the fused product, whose other results the log does not name"
    assert (append.reads[0], append.writes) == ("k_rope", ("cache_k",))
    assert {"q", "n", "cache_k"} <= set(attention.reads), "through the operator that is left out"


def test_unmapped_operators_are_listed_or_left_out(step: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"step\.log: no operator for SOLVE_TRI 64:1 x .* \(no cost model\); allowed: leave"
    ):
        log_graph(step, 0)
    with pytest.raises(ConfigError, match=r"step\.log: execution 2; allowed: 0 to 1"):
        log_graph(step, 2)


def test_report_counts_operators_and_time() -> None:
    found, report = map_log(parse((STEP + STEP + "stray\n").splitlines(keepends=True), "step.log"))
    assert len(found) == 10
    assert report.executions == 2
    assert dict(report.left_out) == {("SOLVE_TRI", "no cost model"): [10, 10]}
    assert report.share == pytest.approx(10 / 12)
    assert "12 read, 1 foreign; 2 executions" in str(report)
    assert "83.3 % of the logged time is mapped" in str(report)


def test_a_log_is_replayed_as_a_stream(write, tmp_path: Path) -> None:
    operators = [MatMul("q4_0", 2048, 1, 2048), RmsNorm(1, 2048), FlashAttention(1, 512, 16, 8, 128)]
    (tmp_path / "made.log").write_text(made.log_text(operators, load_device("v79"), count=3), encoding="utf-8")
    job = 'model = "llm:Llama-3.2-1B"\nstep = "prefill"\ntokens = 32\n'
    path = write((job, 'model = "log:made.log"\n'))
    assert [job.execution for job in load_scenario(path).streams[1].jobs] == [0, 1, 2]
    tables = build(path)
    assert tables.template_names[1:] == ("made[0]", "made[1]", "made[2]")
    first, count = (int(tables.templates[1][key]) for key in ("first_stage", "n_stages"))
    kept = [tables.op_names[int(op)] for op in tables.stages["op"][first : first + count]]
    assert kept == [operator.name for operator in operators]
    chosen = write((job, 'model = "log:made.log"\nexecutions = [2]\n'))
    assert [job.execution for job in load_scenario(chosen).streams[1].jobs] == [2]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("executions = [7]", r"jobs\[0\]\.executions = \[7\], allowed: at most 64 of 0 to 1"),
        ('weights = "f64"', r"jobs\[0\]\.weights = 'f64', allowed: q4_0"),
        ("batch = 1", r"jobs\[0\]\.batch = 1, allowed: the keys model, executions, weights, allow_unmapped"),
    ],
)
def test_mistakes_in_a_scenario(write, tmp_path: Path, keys: str, message: str) -> None:
    (tmp_path / "two.log").write_text(samples.SYNCHRONOUS, encoding="utf-8")
    job = 'model = "llm:Llama-3.2-1B"\nstep = "prefill"\ntokens = 32\n'
    with pytest.raises(ConfigError, match=message):
        load_scenario(write((job, f'model = "log:two.log"\n{keys}\n')))


def test_a_file_without_operators_is_no_workload(write, tmp_path: Path) -> None:
    (tmp_path / "none.log").write_text(samples.OTHERS, encoding="utf-8")
    job = 'model = "llm:Llama-3.2-1B"\nstep = "prefill"\ntokens = 32\n'
    with pytest.raises(ConfigError, match=r"log .*none\.log: holds no operator of llama\.cpp's Hexagon profiler"):
        load_scenario(write((job, 'model = "log:none.log"\n')))


def test_command_shows_what_a_log_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sample.log"
    path.write_text(samples.ALL, encoding="utf-8")
    assert main(["--log", str(path), "--weights", "q8_0"]) == 0
    assert "100.0 % of the logged time is mapped" in capsys.readouterr().out
