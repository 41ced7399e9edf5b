"""What a stream runs: job descriptions of a scenario file, and the graphs they stand for.

``model`` names the kind and the thing: ``llm:Qwen3-1.7B`` with ``step = "decode"`` or ``"prefill"``,
``vision:preview``, or ``onnx:PATH`` with PATH relative to the scenario file.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hexenv.kernels.matmul import Weight
from hexenv.workload import vision
from hexenv.workload.graph import Graph
from hexenv.workload.language import HEADS, decode_step, prefill_chunk
from hexenv.workload.models import language_model, language_models
from hexenv.workload.onnx_import import import_onnx
from hexenv.workload.toml_reader import Table

KINDS = ("llm:NAME", "vision:NAME", "onnx:PATH")
NO_HEAD = "cpu"
MAX_TOKENS = 1 << 17


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """One token of a language model."""

    model: str
    context: int
    """Tokens before it."""
    head: Weight | None
    """Weight format of the head on the NPU, None = the head runs on the CPU."""

    def graph(self) -> Graph:
        """Its operators."""
        return decode_step(language_model(self.model), self.context, self.head)


@dataclass(frozen=True, slots=True)
class PrefillJob:
    """One prompt chunk of a language model."""

    model: str
    tokens: int
    past: int
    """Tokens before it."""
    head: Weight | None
    """As for a decode step; with a head it is the last chunk of its prompt."""

    def graph(self) -> Graph:
        """Its operators."""
        return prefill_chunk(language_model(self.model), self.tokens, self.past, self.head)


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
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    """Full shapes of inputs with free axes, by input name."""
    allow_unmapped: bool
    """Leave out operators that have no mapping instead of refusing the file."""

    def graph(self) -> Graph:
        """Its operators."""
        return import_onnx(self.path, dict(self.shapes), self.allow_unmapped).graph


Job = DecodeJob | PrefillJob | VisionJob | OnnxJob


def read_job(table: Table, folder: Path) -> Job:
    """One ``[[streams.jobs]]`` table; ``folder`` is where relative paths start."""
    kind, _, name = table.text("model").partition(":")
    if not name:
        table.refuse("model", ", ".join(KINDS))
    if kind == "llm":
        return _language_job(table, name)
    if kind == "vision":
        return _vision_job(table, name)
    if kind == "onnx":
        return _onnx_job(table, folder / name)
    table.refuse("model", ", ".join(KINDS))


def _language_job(table: Table, name: str) -> Job:
    if name not in language_models():
        table.refuse("model", ", ".join(f"llm:{known}" for known in language_models()))
    step = table.text("step", choices=("decode", "prefill"))
    job: Job
    if step == "decode":
        context = table.integer("context", low=0, high=MAX_TOKENS)
        job = DecodeJob(name, context, _head(table, HEADS[0]))
    else:
        tokens = table.integer("tokens", low=1, high=MAX_TOKENS)
        past = table.integer("past", 0, high=MAX_TOKENS)
        job = PrefillJob(name, tokens, past, _head(table, NO_HEAD))
    table.end()
    return job


def _head(table: Table, default: str) -> Weight | None:
    name = table.text("head", default, choices=(*HEADS, NO_HEAD))
    return next((head for head in HEADS if head == name), None)


def _vision_job(table: Table, name: str) -> VisionJob:
    if name not in vision.PIPELINES:
        table.refuse("model", ", ".join(f"vision:{known}" for known in vision.PIPELINES))
    parameters = vision.PARAMETERS[name]
    arguments = tuple((key, table.integer(key, default, low=32, high=8192)) for key, default in parameters.items())
    table.end()
    return VisionJob(name, arguments)


def _onnx_job(table: Table, path: Path) -> OnnxJob:
    shapes = table.table("shapes", {})
    job = OnnxJob(
        path=path,
        shapes=tuple((key, shapes.integers(key, low=1)) for key in shapes.names()),
        allow_unmapped=table.flag("allow_unmapped", False),
    )
    table.end()
    return job
