"""GGUF files become language models: the table's models written as GGUF, every quantisation type, and bad files."""

from __future__ import annotations

import builtins
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
from gguf.constants import MODEL_ARCH_NAMES
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hexenv.errors import ConfigError
from hexenv.kernels import ExpertMatMul, FlashAttention, MatMul
from hexenv.kernels.dequantise import DDR_TILE_BYTES
from hexenv.workload import build, gguf_file
from hexenv.workload.__main__ import main
from hexenv.workload.diffusion import denoise_step
from hexenv.workload.gguf_architectures import ARCHITECTURES
from hexenv.workload.gguf_file import read_gguf
from hexenv.workload.gguf_import import WEIGHT_KINDS, import_gguf
from hexenv.workload.language import decode_step, prefill_chunk
from hexenv.workload.models import LanguageModel, language_model
from hexenv.workload.verification import verify_step
from tests.workload.gguf_files import Tensors, described, tensors_of, write_gguf

KINDS = [kind.name for kind in GGMLQuantizationType]
TINY = replace(
    language_model("Qwen3-0.6B"),
    name="tiny",
    layers=2,
    hidden=256,
    q_heads=4,
    kv_heads=2,
    head_dim=64,
    ffn=512,
    vocab=1024,
)
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the tiny model, changed; a tensor or key that is None is left out."""

    def write_model(
        metadata: dict[str, Any] | None = None,
        tensors: dict[str, Any] | None = None,
        architecture: str = "qwen3",
        name: str = "model.gguf",
    ) -> Path:
        keys = {**described(TINY), **(metadata or {})}
        shapes = {**tensors_of(TINY), **(tensors or {})}
        return write_gguf(
            tmp_path / name,
            architecture,
            {key: value for key, value in keys.items() if value is not None},
            {key: value for key, value in shapes.items() if value is not None},
        )

    return write_model


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("Llama-3.2-1B", "llama"),
        ("Qwen2.5-1.5B", "qwen2"),
        ("Qwen3-1.7B", "qwen3"),
        ("Gemma-2B", "gemma"),
        ("OLMoE-1B-7B", "olmoe"),
        ("Mixtral-8x7B", "llama"),
        ("Qwen3-30B-A3B", "qwen3moe"),
        ("LFM2-8B-A1B", "lfm2moe"),
        ("Qwen3.5-0.8B", "qwen35"),
        ("Qwen3.5-35B-A3B", "qwen35moe"),
        ("Qwen3-Next-80B-A3B", "qwen3next"),
    ],
)
def test_models_of_the_table_come_back_whole(tmp_path: Path, name: str, architecture: str) -> None:
    """Same graphs, and the tensors hold as many weights as the record says."""
    model = language_model(name)
    imported = import_gguf(write_gguf(tmp_path / "m.gguf", architecture, described(model), tensors_of(model)))
    assert decode_step(imported.model, 100) == decode_step(model, 100)
    assert prefill_chunk(imported.model, 96, 32) == prefill_chunk(model, 96, 32)
    assert verify_step(imported.model, 4, 100, 0.8) == verify_step(model, 4, 100, 0.8)
    weights = sum(tensor.elements for tensor in imported.file.tensors.values())
    assert weights == model.parameters == imported.model.parameters


GEMMA3 = replace(
    language_model("Gemma-2B"),
    name="Gemma-3-1B",
    layers=26,
    hidden=1152,
    q_heads=4,
    kv_heads=1,
    ffn=6912,
    vocab=262144,
    qk_norm="head",
    post_norms=True,
    window=512,
    full_every=6,
)


def test_windows_and_norms_behind_each_half(tmp_path: Path) -> None:
    """Gemma 3 1B has 999.89 million weights, and 4 of its 26 layers see more than 512 tokens."""
    imported = import_gguf(write_gguf(tmp_path / "m.gguf", "gemma3", described(GEMMA3), tensors_of(GEMMA3)))
    model = imported.model
    assert sum(tensor.elements for tensor in imported.file.tensors.values()) == model.parameters == 999_885_952
    graph = decode_step(model, 4000)
    assert graph == decode_step(GEMMA3, 4000)
    seen = [node.operator.kv for node in graph.nodes if isinstance(node.operator, FlashAttention)]
    assert seen == [4096 if (layer + 1) % 6 == 0 else 768 for layer in range(26)]
    assert model.kv_bytes_per_token == 4 * 2 * 2 * 256
    assert model.state_bytes == 22 * 512 * 2 * 2 * 256
    names = [node.name for node in graph.nodes if node.name.startswith("blk.3.")]
    assert names[-10:] == [
        *("blk.3.attn_out", "blk.3.attn_post_norm", "blk.3.attn_residual", "blk.3.ffn_norm", "blk.3.gate"),
        *("blk.3.up", "blk.3.glu", "blk.3.down", "blk.3.ffn_post_norm", "blk.3.ffn_residual"),
    ]


def test_diffusion_model_comes_back_whole(tmp_path: Path) -> None:
    model = language_model("LLaDA-8B")
    imported = import_gguf(write_gguf(tmp_path / "m.gguf", "llada", described(model), tensors_of(model)))
    assert denoise_step(imported.model, 64, 8) == denoise_step(model, 64, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_is_costed_or_refused_by_name(write: Write, kind: str) -> None:
    name = "blk.1.ffn_down.weight"
    path = write(tensors={name: ((TINY.ffn, TINY.hidden), kind)})
    if kind not in WEIGHT_KINDS:
        with pytest.raises(ConfigError, match=rf"model\.gguf: tensor {name} is {kind}, allowed for a matrix: F32, F16"):
            import_gguf(path)
        return
    nodes = {node.name: node.operator for node in decode_step(import_gguf(path).model, 0).nodes}
    assert nodes["blk.1.down"] == MatMul(WEIGHT_KINDS[kind], TINY.hidden, 1, TINY.ffn)
    assert nodes["blk.0.down"] == MatMul("q4_0", TINY.hidden, 1, TINY.ffn)


@pytest.mark.parametrize("kind", [kind for kind in WEIGHT_KINDS if kind != "F32"])
def test_costed_types_move_the_bytes_of_their_blocks(kind: str) -> None:
    """The backend repacks no type into another size."""
    values, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    assert DDR_TILE_BYTES[WEIGHT_KINDS[kind]] == 1024 // values * block_bytes


@given(kinds=st.lists(st.sampled_from(sorted(WEIGHT_KINDS)), min_size=8, max_size=8))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_matrix_keeps_its_own_type(write: Write, kinds: list[str]) -> None:
    """Mixes such as Q4_K_M give some layers' values and down projections more bits."""
    places = {"attn_q": "q", "attn_k": "k", "attn_v": "v", "attn_output": "attn_out"}
    places |= {"ffn_gate": "gate", "ffn_up": "up", "ffn_down": "down"}
    shapes = tensors_of(TINY)
    mixed: Tensors = {
        f"blk.1.{tensor}.weight": (shapes[f"blk.1.{tensor}.weight"][0], kind)
        for tensor, kind in zip(places, kinds, strict=False)
    }
    mixed["token_embd.weight"] = (shapes["token_embd.weight"][0], kinds[-1])
    model = import_gguf(write(tensors=mixed)).model
    head = model.formats.of("output")
    found = {n.name: n.operator.weight for n in decode_step(model, 0, head).nodes if isinstance(n.operator, MatMul)}
    for (tensor, node), kind in zip(places.items(), kinds, strict=False):
        assert found[f"blk.1.{node}"] == WEIGHT_KINDS[kind], tensor
        assert found[f"blk.0.{node}"] == "q4_0"
    assert found["output"] == WEIGHT_KINDS[kinds[-1]]


def test_experts_keep_their_own_type(tmp_path: Path) -> None:
    model = replace(language_model("Qwen3-30B-A3B"), layers=1, vocab=512)
    tensors = tensors_of(model)
    tensors["blk.0.ffn_down_exps.weight"] = (tensors["blk.0.ffn_down_exps.weight"][0], "Q6_K")
    imported = import_gguf(write_gguf(tmp_path / "m.gguf", "qwen3moe", described(model), tensors)).model
    found = {n.name: n.operator.weight for n in decode_step(imported, 0).nodes if isinstance(n.operator, ExpertMatMul)}
    assert found == {"blk.0.gate_experts": "q4_0", "blk.0.up_experts": "q4_0", "blk.0.down_experts": "q6_k"}


def test_fused_matrices_serve_several_operators(write: Write, tmp_path: Path) -> None:
    """Phi-3 stores q, k, v and gate, up together; older Qwen3-Next files qkv, z and beta, alpha."""
    unfused = [f"blk.{i}.{name}.weight" for i in (0, 1) for name in ("attn_q", "attn_k", "attn_v", "ffn_gate")]
    width = TINY.q_heads * TINY.head_dim + 2 * TINY.kv_heads * TINY.head_dim
    fused: dict[str, Any] = {f"blk.{i}.attn_qkv.weight": ((TINY.hidden, width), "Q8_0") for i in (0, 1)}
    fused |= {f"blk.{i}.ffn_up.weight": ((TINY.hidden, 2 * TINY.ffn), "Q4_1") for i in (0, 1)}
    model = import_gguf(write(tensors={**dict.fromkeys(unfused), **fused}, architecture="phi3")).model
    assert {model.formats.of(f"blk.1.{node}") for node in "qkv"} == {"q8_0"}
    assert {model.formats.of(f"blk.1.{node}") for node in ("gate", "up")} == {"q4_1"}

    hybrid = replace(language_model("Qwen3.5-0.8B"), layers=4, vocab=512)
    tensors = tensors_of(hybrid)
    for i in range(3):
        for name in ("attn_qkv", "attn_gate", "ssm_beta", "ssm_alpha"):
            del tensors[f"blk.{i}.{name}.weight"]
        columns = hybrid.conv_channels + hybrid.gdn_v_heads * hybrid.gdn_head_dim
        tensors[f"blk.{i}.ssm_in.weight"] = ((hybrid.hidden, columns), "Q4_0")
        tensors[f"blk.{i}.ssm_ba.weight"] = ((hybrid.hidden, 2 * hybrid.gdn_v_heads), "Q4_0")
    path = write_gguf(tmp_path / "h.gguf", "qwen3next", described(hybrid), tensors)
    assert decode_step(import_gguf(path).model, 9) == decode_step(hybrid, 9)


def test_layers_that_only_draft_are_left_out(write: Write) -> None:
    extra = {f"blk.2.{name.split('.', 2)[2]}": value for name, value in tensors_of(TINY).items() if "blk.1." in name}
    extra["blk.2.nextn.eh_proj.weight"] = ((2 * TINY.hidden, TINY.hidden), "Q8_0")
    imported = import_gguf(write({"block_count": 3, "nextn_predict_layers": 1}, extra))
    assert decode_step(imported.model, 5) == decode_step(TINY, 5)


@pytest.mark.parametrize(
    ("metadata", "tensors", "architecture", "words"),
    [
        ({}, {}, "mamba", r"general\.architecture = mamba, allowed: dream, .*llama, .*qwen3next"),
        ({"block_count": None}, {}, "qwen3", r"qwen3\.block_count = missing, allowed: an integer of at least 1"),
        ({"embedding_length": 512}, {}, "qwen3", r"tensor token_embd\.weight has shape \[256, 1024\].* \[512, 1024\]"),
        ({"attention.head_count_kv": 3}, {}, "qwen3", r"head_count_kv = 3, allowed: a divisor of head_count = 4"),
        ({"attention.head_count_kv": [2, 4]}, {}, "qwen3", r"head_count_kv = \[2, 4\], .*the same in every layer"),
        ({"attention.value_length": 32}, {}, "qwen3", r"qwen3\.attention\.value_length = 32, allowed: .* 64"),
        ({"general.name": "x", "feed_forward_length": 640}, {}, "qwen3", r"ffn_gate\.weight has shape \[256, 512\]"),
        ({}, {"blk.1.attn_k.weight": None}, "qwen3", r"blk\.1\.attn_k\.weight is missing, allowed: .*\[256, 128\]"),
        ({}, {"blk.1.ffn_down.weight": ((512, 128), "Q4_0")}, "qwen3", r"\[512, 128\], allowed .*\[512, 256\]"),
        ({}, {"blk.0.attn_sinks.weight": ((4,), "F32")}, "qwen3", r"without a mapping: blk\.0\.attn_sinks\.weight"),
        ({}, {"token_embd.weight": None}, "qwen3", r"token_embd\.weight has shape \[\], allowed: \[256, vocabulary\]"),
        ({"full_attention_interval": 2}, {}, "qwen3", r"full_attention_interval = 2, but the tensors make .* AA "),
        ({"expert_count": 4, "expert_used_count": 5}, {}, "qwen3", r"expert_used_count = 5, allowed: .* at most 4"),
    ],
)
def test_what_does_not_fit_is_refused(
    write: Write, metadata: dict[str, Any], tensors: dict[str, Any], architecture: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=rf"model\.gguf: .*{words}"):
        import_gguf(write(metadata, tensors, architecture))


@pytest.mark.parametrize("part", [0.0, 0.0001, 0.01, 0.3, 0.999])
def test_truncated_files(write: Write, part: float) -> None:
    path = write()
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ConfigError, match=r"model\.gguf: truncated or not a GGUF file"):
        import_gguf(path)


@given(where=st.integers(0, 3000), value=st.integers(0, 255))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_header_is_read_or_refused(write: Write, where: int, value: int) -> None:
    path = write()
    content = bytearray(path.read_bytes())
    content[where] = value
    path.write_bytes(content)
    try:
        model = import_gguf(path).model
    except ConfigError:
        return
    assert isinstance(model, LanguageModel)


def test_large_vocabularies_are_stepped_over(tmp_path: Path) -> None:
    """No object a word: the arrays of strings are not kept, what lies behind them is found."""
    path = tmp_path / "words.gguf"
    writer = GGUFWriter(path, "qwen3")
    writer.add_token_list([f"word {i}" for i in range(5000)])
    writer.add_token_types([1] * 5000)
    writer.add_uint32("qwen3.block_count", 7)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    metadata = read_gguf(path).metadata
    assert "tokenizer.ggml.tokens" not in metadata
    assert metadata["tokenizer.ggml.token_type"] == [1] * 5000
    assert metadata["qwen3.block_count"] == 7


def test_models_in_several_files(write: Write, tmp_path: Path) -> None:
    tensors = tensors_of(TINY)
    second = {name: value for name, value in tensors.items() if name.startswith("blk.1.")}
    first = write({"split.no": 0, "split.count": 2}, dict.fromkeys(second), name="m-00001-of-00002.gguf")
    other = write_gguf(tmp_path / "m-00002-of-00002.gguf", "qwen3", {"split.no": 1, "split.count": 2}, second)
    assert decode_step(import_gguf(first).model, 3) == decode_step(TINY, 3)
    with pytest.raises(ConfigError, match=r"m-00002.*part of a model in 2 files, allowed: the first one"):
        import_gguf(other)
    other.unlink()
    with pytest.raises(ConfigError, match=r"m-00002-of-00002\.gguf: cannot be read"):
        import_gguf(first)


def test_big_endian_files(tmp_path: Path) -> None:
    words = [b"abc", b"", b"word"]
    array = struct.pack(">IIQ", 9, 8, len(words)) + b"".join(struct.pack(">Q", len(word)) + word for word in words)
    number = struct.pack(">Q", 1) + b"n" + struct.pack(">II", 4, 77)
    path = tmp_path / "big.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 2) + struct.pack(">Q", 1) + b"a" + array + number)
    assert read_gguf(path).metadata["n"] == 77


def test_missing_package_says_what_to_install(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path, real = write(), builtins.__import__

    def without_gguf(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] == "gguf":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    gguf_file._header_reader.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without_gguf)
    with pytest.raises(ConfigError, match=r"pip install 'hexenv\[gguf\]'"):
        import_gguf(path)


SCENARIO = """
description = "test"
[mixes]
all = ["text"]
[train]
first_seed = 0
seeds = 10
loads = [1.0]
mixes = ["all"]
[heldout]
first_seed = 10
seeds = 10
loads = [1.0]
mixes = ["all"]
[[streams]]
name = "text"
arrival = "closed_loop"
[[streams.jobs]]
model = "gguf:model.gguf"
"""


@pytest.mark.parametrize(
    "step",
    ['"decode"\ncontext = 64', '"prefill"\ntokens = 32', '"verify"\nwindow = 4\ncontext = 8\nacceptance = 0.8'],
)
def test_scenario_runs_a_file_beside_it(write: Write, tmp_path: Path, step: str) -> None:
    write(tensors={"token_embd.weight": ((TINY.hidden, TINY.vocab), "Q6_K")})
    path = tmp_path / "scenario.toml"
    path.write_text(f"{SCENARIO}step = {step}\n", encoding="utf-8")
    tables = build(str(path))
    assert tables.template_names[0].startswith("tiny ")
    assert any("q6_k" in name for name in tables.op_names) == ("prefill" not in step)


def test_scenario_chooses_another_head(write: Write, tmp_path: Path) -> None:
    write(tensors={"token_embd.weight": ((TINY.hidden, TINY.vocab), "Q6_K")})
    path = tmp_path / "scenario.toml"
    path.write_text(f'{SCENARIO}step = "decode"\ncontext = 64\nhead = "cpu"\n', encoding="utf-8")
    assert "output" not in build(str(path)).stage_names
    path.write_text(f'{SCENARIO}step = "decode"\ncontext = 64\nhead = "q5_k"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match=r"head = 'q5_k', allowed: q4_0, q8_0, q6_k, cpu"):
        build(str(path))


def test_command_shows_what_was_read(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tensors={"blk.1.attn_v.weight": ((TINY.hidden, 128), "Q6_K")})
    assert main(["--gguf", str(path), "--context", "100", "--prompt", "64"]) == 0
    shown = capsys.readouterr().out
    assert "tiny, architecture qwen3" in shown
    assert "KV cache 1,024 bytes a token" in shown
    assert "Q4_0 1, Q6_K 1" in shown
    assert "decode after 100" in shown
    assert "prefill of 64" in shown
    assert "leaves Q6_K to the CPU" in shown


@pytest.mark.parametrize("option", [["--context", "-1"], ["--prompt", "0"]])
def test_command_refuses(write: Write, refusal: Callable[..., str], option: list[str]) -> None:
    assert option[0] in refusal(main, ["--gguf", str(write()), *option])


def test_architectures_are_those_of_the_package() -> None:
    assert set(ARCHITECTURES) <= set(MODEL_ARCH_NAMES.values())
