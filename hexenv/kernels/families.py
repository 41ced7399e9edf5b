"""The list of operator families, and the reading of technique selections against it."""

from __future__ import annotations

from collections.abc import Mapping

from hexenv.kernels.attention import FlashAttention
from hexenv.kernels.chain import Chain
from hexenv.kernels.convolution import Conv2d, DepthwiseConv2d, Resize
from hexenv.kernels.delta_net import GatedDeltaNet
from hexenv.kernels.dequantise import Dequantise
from hexenv.kernels.elementwise import Elementwise, Rope
from hexenv.kernels.experts import ExpertMatMul
from hexenv.kernels.gated_mlp import GatedMlp
from hexenv.kernels.layout import Copy
from hexenv.kernels.matmul import MatMul
from hexenv.kernels.pooling import Pool
from hexenv.kernels.reduction import L2Norm, LayerNorm, Reduce, RmsNorm, Scan, Softmax
from hexenv.kernels.remap import Remap
from hexenv.kernels.short_conv import ShortConv
from hexenv.kernels.stencil import Stencil
from hexenv.kernels.techniques import Technique, techniques

OPERATORS: tuple[type, ...] = (
    MatMul,
    Dequantise,
    GatedMlp,
    Chain,
    ExpertMatMul,
    FlashAttention,
    GatedDeltaNet,
    ShortConv,
    Conv2d,
    DepthwiseConv2d,
    Resize,
    Pool,
    Elementwise,
    Rope,
    Copy,
    Remap,
    RmsNorm,
    LayerNorm,
    L2Norm,
    Softmax,
    Reduce,
    Scan,
    Stencil,
)
"""Every operator class."""


def family_techniques() -> Mapping[str, Mapping[str, Technique]]:
    """Techniques by family and name; families without any are left out."""
    found: dict[str, dict[str, Technique]] = {}
    for kind in OPERATORS:
        own = techniques(kind)
        if own:
            found.setdefault(kind.family, {}).update(own)  # type: ignore[attr-defined]
    return found
