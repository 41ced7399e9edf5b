"""What a stream runs: job descriptions of a scenario file, and the graphs they stand for.

``model`` names the kind and the thing: ``llm:Qwen3-1.7B`` or ``gguf:PATH`` with a ``step`` out of decode, prefill and
verify, or denoise for a diffusion model; ``vision:preview``; ``onnx:PATH``; or ``log:PATH``, a profile log whose
executions are replayed in turn. A PATH is relative to the scenario file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args

from hexenv.kernels.matmul import Weight
from hexenv.workload import vision
from hexenv.workload.diffusion import BLOCK, denoise_step
from hexenv.workload.gguf_import import import_gguf
from hexenv.workload.graph import Graph
from hexenv.workload.language import HEADS, decode_step, prefill_chunk
from hexenv.workload.log_import import log_graph, read_executions
from hexenv.workload.models import LanguageModel, language_model, language_models
from hexenv.workload.onnx_import import import_onnx
from hexenv.workload.onnx_shapes import Inputs
from hexenv.workload.toml_reader import Table
from hexenv.workload.verification import verify_step

KINDS = ("llm:NAME", "gguf:PATH", "vision:NAME", "onnx:PATH", "log:PATH")
NO_HEAD = "cpu"
MAX_TOKENS = 1 << 17
MAX_WINDOW = 64
MAX_EXECUTIONS = 64
"""Of a log in one stream."""


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """One token of a language model."""

    model: LanguageModel
    context: int
    """Tokens before it."""
    head: Weight | None
    """Weight format of the head on the NPU, None = the head runs on the CPU."""

    def graph(self) -> Graph:
        """Its operators."""
        return decode_step(self.model, self.context, self.head)


@dataclass(frozen=True, slots=True)
class PrefillJob:
    """One prompt chunk of a language model."""

    model: LanguageModel
    tokens: int
    past: int
    """Tokens before it."""
    head: Weight | None
    """As for a decode step; with a head it is the last chunk of its prompt."""

    def graph(self) -> Graph:
        """Its operators."""
        return prefill_chunk(self.model, self.tokens, self.past, self.head)


@dataclass(frozen=True, slots=True)
class VerifyJob:
    """One window of drafted tokens that a language model checks."""

    model: LanguageModel
    window: int
    context: int
    """Tokens before it."""
    acceptance: float
    """Chance that a draft token is kept if all before it are, 0 to 1."""
    prune: float
    """Drafts reached with a smaller chance are left out."""
    head: Weight | None

    def graph(self) -> Graph:
        """Its operators."""
        return verify_step(self.model, self.window, self.context, self.acceptance, self.prune, self.head)


@dataclass(frozen=True, slots=True)
class DenoiseJob:
    """One step of a diffusion language model on a block of tokens."""

    model: LanguageModel
    context: int
    """Tokens before the block."""
    masked: int
    """Tokens of the block that are still to fix."""
    block: int
    fill: bool
    """Tokens of later blocks fill the rows that are free."""
    head: Weight | None

    def graph(self) -> Graph:
        """Its operators."""
        return denoise_step(self.model, self.context, self.masked, self.block, self.fill, self.head)


@dataclass(frozen=True, slots=True)
class VisionJob:
    """One frame through a vision pipeline."""

    pipeline: str
    arguments: tuple[tuple[str, int], ...]
    """Frame or input size, by parameter name."""

    def graph(self) -> Graph:
        """Its operators."""
        return vision.PIPELINES[self.pipeline](**dict(self.arguments))


@dataclass(frozen=True, slots=True)
class OnnxJob:
    """One inference of an ONNX model."""

    path: Path
    inputs: Inputs
    allow_unmapped: bool
    """Leave out operators that have no mapping instead of refusing the file."""

    def graph(self) -> Graph:
        """Its operators."""
        return import_onnx(self.path, self.inputs, self.allow_unmapped).graph


@dataclass(frozen=True, slots=True)
class LogJob:
    """One execution out of a profile log of llama.cpp's Hexagon backend."""

    path: Path
    execution: int
    """From 0, in log order."""
    weight: Weight | None
    """Format of the weights where the log has no types."""
    allow_unmapped: bool
    """Leave out operators without a cost instead of refusing the log."""

    def graph(self) -> Graph:
        """Its operators."""
        return log_graph(self.path, self.execution, self.weight, self.allow_unmapped)


class Job(Protocol):
    """What a stream runs: anything that has a graph; equal jobs have equal graphs."""

    def graph(self) -> Graph:
        """Its operators."""
        ...


def read_jobs(table: Table, folder: Path) -> tuple[Job, ...]:
    """One ``[[streams.jobs]]`` table; ``folder`` is where relative paths start. A log brings a job an execution."""
    kind, _, name = table.text("model").partition(":")
    if kind == "log" and name:
        return _log_jobs(table, folder / name)
    return (_read_job(table, folder, kind, name),)


def _read_job(table: Table, folder: Path, kind: str, name: str) -> Job:
    if not name:
        table.refuse("model", ", ".join(KINDS))
    if kind == "llm":
        if name not in language_models():
            table.refuse("model", ", ".join(f"llm:{known}" for known in language_models()))
        return _language_job(table, language_model(name))
    if kind == "gguf":
        return _language_job(table, import_gguf(folder / name).model)
    if kind == "vision":
        return _vision_job(table, name)
    if kind == "onnx":
        return _onnx_job(table, folder / name)
    table.refuse("model", ", ".join(KINDS))


def _language_job(table: Table, model: LanguageModel) -> Job:
    steps = _CAUSAL_STEPS if model.causal else _DIFFUSION_STEPS
    job = steps[table.text("step", choices=tuple(steps))](table, model)
    table.end()
    return job


def _decode_job(table: Table, model: LanguageModel) -> DecodeJob:
    context = table.integer("context", low=0, high=MAX_TOKENS)
    return DecodeJob(model, context, _head(table, model))


def _prefill_job(table: Table, model: LanguageModel) -> PrefillJob:
    tokens = table.integer("tokens", low=1, high=MAX_TOKENS)
    past = table.integer("past", 0, high=MAX_TOKENS)
    return PrefillJob(model, tokens, past, _head(table, model, NO_HEAD))


def _verify_job(table: Table, model: LanguageModel) -> VerifyJob:
    return VerifyJob(
        model=model,
        window=table.integer("window", low=1, high=MAX_WINDOW),
        context=table.integer("context", low=0, high=MAX_TOKENS),
        acceptance=table.number("acceptance", low=0.0, high=1.0),
        prune=table.number("prune", 0.0, low=0.0, high=1.0),
        head=_head(table, model),
    )


def _denoise_job(table: Table, model: LanguageModel) -> DenoiseJob:
    block = table.integer("block", BLOCK, low=1, high=MAX_TOKENS)
    return DenoiseJob(
        model=model,
        context=table.integer("context", low=0, high=MAX_TOKENS),
        masked=table.integer("masked", low=1, high=block),
        block=block,
        fill=table.flag("fill", False),
        head=_head(table, model),
    )


_CAUSAL_STEPS: Mapping[str, Callable[[Table, LanguageModel], Job]] = {
    "decode": _decode_job,
    "prefill": _prefill_job,
    "verify": _verify_job,
}
_DIFFUSION_STEPS: Mapping[str, Callable[[Table, LanguageModel], Job]] = {"denoise": _denoise_job}


def _head(table: Table, model: LanguageModel, default: str | None = None) -> Weight | None:
    """Format of the head: as the model stores it unless the table says otherwise."""
    own = model.formats.of("output")
    formats = dict.fromkeys((*HEADS, own))
    name = table.text("head", default or own, choices=(*formats, NO_HEAD))
    return next((head for head in formats if head == name), None)


def _vision_job(table: Table, name: str) -> VisionJob:
    if name not in vision.PIPELINES:
        table.refuse("model", ", ".join(f"vision:{known}" for known in vision.PIPELINES))
    parameters = vision.PARAMETERS[name]
    arguments = tuple((key, table.integer(key, default, low=32, high=8192)) for key, default in parameters.items())
    table.end()
    return VisionJob(name, arguments)


def _onnx_job(table: Table, path: Path) -> OnnxJob:
    shapes, axes, values = (table.table(key, {}) for key in ("shapes", "axes", "values"))
    inputs = Inputs(
        shapes=tuple((key, shapes.integers(key, low=1)) for key in shapes.names()),
        axes=tuple((key, axes.integer(key, low=1)) for key in axes.names()),
        batch=table.integer("batch", low=1) if table.has("batch") else None,
        values=tuple((key, values.number(key)) for key in values.names()),
    )
    job = OnnxJob(path, inputs, table.flag("allow_unmapped", False))
    table.end()
    return job


def _log_jobs(table: Table, path: Path) -> tuple[Job, ...]:
    found = len(read_executions(path))
    chosen = table.integers("executions") if table.has("executions") else tuple(range(found))
    if max(chosen) >= found or len(chosen) > MAX_EXECUTIONS:
        table.refuse("executions", f"at most {MAX_EXECUTIONS} of 0 to {found - 1}, those of {path}")
    weight: Any = table.text("weights", choices=get_args(Weight)) if table.has("weights") else None
    allow_unmapped = table.flag("allow_unmapped", False)
    table.end()
    return tuple(LogJob(path, index, weight, allow_unmapped) for index in chosen)
