"""What a row measures, and what the cost model says for it.

* ``operator``: one operator on the NPU, dispatch excluded.
* ``prefill``, ``decode``: a whole prompt or one token of a language model, as the host sees it. A prompt is worked on
  in chunks of ``ub`` tokens (512 unless stated). Each chunk, and each token, costs its operators one after another,
  ``op_us`` an operator, ``batch_us`` for every 1024 of them, and the host gap ``decode_gap_us`` (sampling, graph
  set-up, and the output layer where it runs on the CPU).
* ``part``: device time of some operators of such a step: ``attention``, ``matmul``, ``others`` (all but attention) or
  ``all`` (``op_us`` an operator included).
* ``constant``: a rate or a time of the silicon.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels import (
    Copy,
    Elementwise,
    FlashAttention,
    MatMul,
    Operator,
    Reduce,
    RmsNorm,
    Rope,
    Softmax,
)
from hexenv.kernels.elementwise import KINDS
from hexenv.validate.backend import Generation, cost, duration_us
from hexenv.validate.dims import Dims
from hexenv.validate.rows import Row
from hexenv.workload.language import WEIGHTS, decode_step, prefill_chunk
from hexenv.workload.log_operators import elementwise_kind
from hexenv.workload.models import language_model, language_models

BATCH_OPS = 1024
"""Operators in one batch of the backend."""
UBATCH = 512
"""Tokens of a prompt chunk where nothing is said (llama.cpp's default)."""
TIME_US = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
RATES = {"TFLOPS": 1e6, "GFLOPS": 1e3, "GB/s": 1e3, "t/s": 1e-6}
"""Amount (flop, bytes, tokens) a us of one unit."""


class Subject(Protocol):
    """What a row measures: hashable, so that predictions are made once."""

    @property
    def family(self) -> str:
        """Heading of the summary."""
        ...

    def predict(self, device: Device, generation: Generation, unit: str) -> float:
        """The model's figure in ``unit``. A unit that makes no sense here is a ConfigError."""
        ...


def _in_unit(unit: str, us: float, amounts: Mapping[str, float]) -> float:
    """A time in ``unit``, or the rate at which ``amounts`` (by unit) are worked off in that time."""
    if unit in TIME_US:
        return us / TIME_US[unit]
    if unit not in amounts:
        raise ConfigError(f"unit {unit!r}; allowed here: {', '.join([*TIME_US, *amounts])}")
    return amounts[unit] / us / RATES[unit]


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """One operator on the NPU."""

    operator: Operator

    @property
    def family(self) -> str:
        """``gemm``, ``gemv`` (few tokens), ``batched matmul``, or the operator's own family."""
        if isinstance(self.operator, MatMul):
            if self.operator.batch > 1:
                return "batched matmul"
            return "gemm" if self.operator.n > 4 else "gemv"
        return self.operator.family

    def predict(self, device: Device, generation: Generation, unit: str) -> float:
        """Time, or rate over its arithmetic or its DDR traffic."""
        us = duration_us(self.operator, device, generation)
        traffic = cost(self.operator, device, generation) if unit == "GB/s" else None
        moved = traffic.prologue_bytes + traffic.ddr_in_bytes + traffic.ddr_out_bytes if traffic else 0.0
        flop = _flop(self.operator)
        amounts = {"GB/s": moved} | ({"TFLOPS": flop, "GFLOPS": flop} if flop else {})
        return _in_unit(unit, us, amounts)


def _flop(operator: Operator) -> float:
    """Multiply-adds counted as two; 0 where nobody counts them."""
    if isinstance(operator, MatMul):
        return 2.0 * operator.m * operator.n * operator.k * operator.batch
    if isinstance(operator, FlashAttention):
        return 4.0 * operator.queries * operator.kv * operator.q_heads * operator.head_dim
    return 0.0


PARTS: Mapping[str, Callable[[Operator], bool]] = {
    "attention": lambda operator: isinstance(operator, FlashAttention),
    "matmul": lambda operator: isinstance(operator, MatMul),
    "others": lambda operator: not isinstance(operator, FlashAttention),
    "all": lambda operator: True,
}
"""Operators that a ``part`` row sums over."""


@dataclass(frozen=True, slots=True)
class Steps:
    """A prompt, chunk after chunk, or one token; Q4_0 weights, the head on the CPU unless ``head`` names its format."""

    model: str
    kind: str
    """``prefill`` or ``decode``."""
    tokens: int
    """Of the prompt; for decode the tokens generated, half of which are the context on average."""
    ubatch: int = UBATCH
    head: str | None = None
    part: str = ""
    """Device time of a key of :data:`PARTS` only; empty = everything the host sees."""

    @property
    def family(self) -> str:
        """``prefill`` or ``decode``."""
        return self.kind

    def predict(self, device: Device, generation: Generation, unit: str) -> float:
        """Time of the prompt or the token, or tokens a second."""
        us = sum(self._chunk_us(chunk, device, generation) for chunk in _operators(self))
        return _in_unit(unit, us, {"t/s": float(self.tokens if self.kind == "prefill" else 1)})

    def _chunk_us(self, chunk: tuple[tuple[Operator, int], ...], device: Device, generation: Generation) -> float:
        chosen = [(operator, count) for operator, count in chunk if PARTS[self.part or "all"](operator)]
        us = sum((count * duration_us(operator, device, generation) for operator, count in chosen), 0.0)
        ops = sum(count for _, count in chosen)
        if self.part:
            return us + (ops * device.op_us if self.part == "all" else 0.0)
        batches = -(-ops // BATCH_OPS)
        return us + ops * device.op_us + batches * device.batch_us + device.decode_gap_us


@lru_cache(maxsize=256)
def _operators(steps: Steps) -> tuple[tuple[tuple[Operator, int], ...], ...]:
    """Operators and how often each runs, chunk by chunk."""
    model: Any = language_model(steps.model)
    head: Any = steps.head
    if steps.kind == "decode":
        graphs = [decode_step(model, steps.tokens // 2, head)]
    else:
        starts = range(0, steps.tokens, steps.ubatch)
        graphs = [prefill_chunk(model, min(steps.ubatch, steps.tokens - past), past, None) for past in starts]
    return tuple(tuple(Counter(node.operator for node in graph.nodes).items()) for graph in graphs)


@dataclass(frozen=True, slots=True)
class SiliconConstant:
    """A rate or a time of the silicon, in the unit of the row; ``arguments`` are what it depends on."""

    name: str
    arguments: tuple[float, ...] = ()

    @property
    def family(self) -> str:
        """``primitive``, or ``dispatch`` for round trips of batches."""
        return "dispatch" if self.name == "round_trip" else "primitive"

    def predict(self, device: Device, generation: Generation, unit: str) -> float:
        """The constant, converted."""
        value = _CONSTANTS[self.name].value(device, *self.arguments)
        if unit in TIME_US:
            return value / TIME_US[unit]
        return value / RATES[unit] if unit in RATES else value


@dataclass(frozen=True, slots=True)
class _Constant:
    value: Callable[..., float]
    """From the device and the arguments: us, bytes or flop a us, or a count."""
    arguments: tuple[tuple[str, float], ...] = ()
    """Names in the row's dims, and what holds where they are not stated."""


_CONTEXTS = (("contexts", 6.0),)
_CONSTANTS: Mapping[str, _Constant] = {
    "vtcm_read": _Constant(lambda d, contexts: contexts * d.vtcm_read_bytes_per_us, _CONTEXTS),
    "vtcm_read_shared": _Constant(lambda d, contexts: contexts * d.vtcm_read_bytes_per_us / (1 + d.beta), _CONTEXTS),
    "vtcm_write": _Constant(lambda d, contexts: contexts * d.vtcm_write_bytes_per_us, _CONTEXTS),
    "hmx_operands": _Constant(lambda d: d.vtcm_hmx_bytes_per_us),
    "hmx_fp16": _Constant(lambda d: 2 * 32**3 / d.hmx_tile_us),
    "hvx_fp16": _Constant(lambda d: d.hvx_fp16_flop_per_us),
    "ddr": _Constant(lambda d: d.ddr_bytes_per_us),
    "hvx_load": _Constant(lambda d: d.hvx_load_bytes_per_us),
    "contexts": _Constant(lambda d: d.contexts),
    "vtcm_bytes": _Constant(lambda d: d.vtcm_bytes),
    "entry_host": _Constant(lambda d: d.entry_host_us),
    "round_trip": _Constant(lambda d, dsp, ops: dsp + d.batch_us + ops * d.op_us, (("DSP", 0.0), ("ops", 1.0))),
}


def subject(use: str, name: str, row: Row, dims: Dims) -> Subject:
    """What a row measures, by a rule's ``use`` and ``name``.

    Raises:
        ConfigError: the row does not say enough, or what it says cannot be expressed; the text is the reason.
    """
    if use == "operator":
        return OperatorTime(_operator(row, dims))
    if use == "constant":
        constant = _CONSTANTS[name]
        return SiliconConstant(name, tuple(_or(dims, key, default) for key, default in constant.arguments))
    model = row["model"] or _model_name(dims)
    if model not in language_models():
        raise ConfigError(f"model {model!r} is not in the table of models")
    if row["quant"] not in ("", "Q4_0"):
        raise ConfigError(f"weights {row['quant']}: the model's graphs are Q4_0")
    kind, tokens = _step(row, dims)
    head = WEIGHTS if "lm head on HTP" in row["note"] else None
    return Steps(model, kind, tokens, dims.count("ub", UBATCH), head, name if use == "part" else "")


def _step(row: Row, dims: Dims) -> tuple[str, int]:
    """Kind and tokens, from ``pp512`` / ``tg64``, or in the operator layout from ``ctx=512`` / ``tg=64``."""
    if found := re.fullmatch(r"(pp|tg)([1-9]\d{0,5})", row["test"]):
        return ("prefill" if found[1] == "pp" else "decode"), int(found[2])
    return ("decode", dims.count("tg")) if dims.count("tg", 0) else ("prefill", dims.count("ctx"))


def _or(dims: Dims, name: str, default: float) -> float:
    try:
        return dims[name]
    except ConfigError:
        return default


def _model_name(dims: Dims) -> str:
    for word in dims.words():
        if word in language_models():
            return word
    raise ConfigError("model not stated")


def _operator(row: Row, dims: Dims) -> Operator:
    words = row["op"].split()
    name = words[0].upper() if words else ""
    if name in _OPERATORS:
        return _OPERATORS[name](row, dims)
    kind = elementwise_kind(name)
    if kind in KINDS:
        elements = 1
        for size in dims.extents():
            elements *= size
        return Elementwise(kind, elements, 2 if row["dtype_a"] == "f16" else 4)
    known = ", ".join([*_OPERATORS, *(key.upper() for key in KINDS)])
    raise ConfigError(f"operator {row['op']!r} has no cost model; known: {known}")


def _matmul(row: Row, dims: Dims) -> MatMul:
    weight: Any = row["dtype_a"]
    return MatMul(weight, dims.count("m"), dims.count("n", 1), dims.count("k"), dims.count("bs", 1))


def _attention(row: Row, dims: Dims) -> FlashAttention:
    queries, kv, q_heads, kv_heads, head_dim = (dims.count(name) for name in ("nb", "kv", "q_heads", "kv_heads", "d"))
    return FlashAttention(queries, kv, q_heads, kv_heads, head_dim)


def _rows_and_columns(dims: Dims) -> tuple[int, int]:
    columns, *outer = dims.extents()
    rows = 1
    for size in outer:
        rows *= size
    return rows, columns


def _rope(row: Row, dims: Dims) -> Rope:
    head_dim, heads, tokens = (*dims.extents(), 1, 1)[:3]
    return Rope(tokens, heads, head_dim)


def _copy(row: Row, dims: Dims) -> Copy:
    rows, columns = _rows_and_columns(dims)
    return Copy(rows * columns, 2 if row["dtype_a"] == "f16" else 4)


_OPERATORS: Mapping[str, Callable[[Row, Dims], Operator]] = {
    "MUL_MAT": _matmul,
    "FLASH_ATTN_EXT": _attention,
    "RMS_NORM": lambda row, dims: RmsNorm(*_rows_and_columns(dims)),
    "SOFT_MAX": lambda row, dims: Softmax(*_rows_and_columns(dims)),
    "SUM_ROWS": lambda row, dims: Reduce(*_rows_and_columns(dims)),
    "ROPE": _rope,
    **dict.fromkeys(("CPY", "CONT", "SET_ROWS", "GET_ROWS"), _copy),
}
"""By ggml's operator name; shapes in ggml's order in ``dims``, fastest dimension first."""
