"""What an operator costs: one file an operator family, shapes in, stage costs of versions and tile classes out."""

from hexenv.kernels.attention import FlashAttention
from hexenv.kernels.chain import Chain
from hexenv.kernels.convolution import Conv2d, DepthwiseConv2d, Resize
from hexenv.kernels.cost import StageCost, Version, alone_us, body_hvx_us, body_us, prologue_us
from hexenv.kernels.delta_net import GatedDeltaNet
from hexenv.kernels.dequantise import Dequantise
from hexenv.kernels.elementwise import Elementwise, Rope
from hexenv.kernels.experts import ExpertMatMul
from hexenv.kernels.families import family_techniques
from hexenv.kernels.gated_mlp import GatedMlp
from hexenv.kernels.layout import Copy
from hexenv.kernels.matmul import MatMul, backend_version
from hexenv.kernels.offers import fastest_us, leaves, offers, profile
from hexenv.kernels.operator import Operator
from hexenv.kernels.pooling import Pool
from hexenv.kernels.reduction import L2Norm, LayerNorm, Reduce, RmsNorm, Scan, Softmax
from hexenv.kernels.remap import Remap
from hexenv.kernels.short_conv import ShortConv
from hexenv.kernels.stencil import Stencil

__all__ = [
    "Chain",
    "Conv2d",
    "Copy",
    "DepthwiseConv2d",
    "Dequantise",
    "Elementwise",
    "ExpertMatMul",
    "FlashAttention",
    "GatedDeltaNet",
    "GatedMlp",
    "L2Norm",
    "LayerNorm",
    "MatMul",
    "Operator",
    "Pool",
    "Reduce",
    "Remap",
    "Resize",
    "RmsNorm",
    "Rope",
    "Scan",
    "ShortConv",
    "Softmax",
    "StageCost",
    "Stencil",
    "Version",
    "alone_us",
    "backend_version",
    "body_hvx_us",
    "body_us",
    "family_techniques",
    "fastest_us",
    "leaves",
    "offers",
    "profile",
    "prologue_us",
]
