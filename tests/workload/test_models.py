"""The table of language models: published totals, layer patterns, sources."""

import pytest

from hexenv.errors import ConfigError
from hexenv.workload.models import language_model, language_models

MODELS = tuple(language_models().values())


def digits_given(total):
    """The unit of the last digit that a published total gives, for example 10 million for 34.66 billion."""
    unit = 1
    while total % (10 * unit) == 0:
        unit *= 10
    return unit


@pytest.mark.parametrize("model", [m for m in MODELS if m.published_parameters], ids=lambda m: m.name)
def test_parameters_are_the_published_totals(model):
    """To as many digits as the source gives; Qwen3.5-0.8B, for one, is 752.39 million in llama.cpp."""
    assert abs(model.parameters - model.published_parameters) <= digits_given(model.published_parameters) / 2


def test_one_model_only_has_no_published_total():
    assert [model.name for model in MODELS if not model.published_parameters] == ["Skywork-1.5B-PRM"]


@pytest.mark.parametrize(
    ("name", "attention", "other"),
    [
        ("Qwen3.5-0.8B", 6, 18),
        ("Qwen3.5-4B", 8, 24),
        ("Qwen3.5-27B", 16, 48),
        ("Qwen3.5-35B-A3B", 10, 30),
        ("Qwen3-Next-80B-A3B", 12, 36),
        ("LFM2-8B-A1B", 6, 18),
        ("Qwen3-4B", 36, 0),
    ],
)
def test_hybrids_have_their_layers(name, attention, other):
    """Full-attention and delta-net or short-conv layers of the model cards."""
    model = language_model(name)
    kinds = [model.mixer(layer) for layer in range(model.layers)]
    assert kinds.count("A") == attention
    assert len(kinds) - attention == other


def test_experts_start_behind_the_dense_layers():
    model = language_model("LFM2-8B-A1B")
    assert [model.has_experts(layer) for layer in range(3)] == [False, False, True]
    assert sum(model.has_experts(layer) for layer in range(model.layers)) == 22
    assert 3 * model.hidden * model.expert_ffn == 11_010_048, "an expert has 11.01 million weights (nntrainer note 46)"


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_rows_are_complete(model):
    assert model.source
    assert model.confidence in "ABCD"
    assert set(model.mixers) <= set("AGC")
    assert model.glu in ("swiglu", "geglu")
    assert model.qk_norm in ("none", "head", "row")
    assert (model.conv_kernel > 0) == bool(set(model.mixers) & set("GC"))
    assert (model.gdn_head_dim > 0) == ("G" in model.mixers)
    assert (model.experts_active > 0) == (model.experts_total > 0)
    assert model.ffn > 0 or model.experts_total > 0


def test_unknown_model_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"Qwen4.*Qwen3-1\.7B, Llama-3\.2-1B.*models\.csv"):
        language_model("Qwen4")
