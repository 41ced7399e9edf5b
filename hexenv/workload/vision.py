"""Camera and vision jobs: image pipelines of stencils over a frame, and convolutional networks layer by layer.

Image stencils work on one u8 plane (luma); the stages follow what phone camera stacks run per preview frame.
Activations of the networks are part of the convolution that makes them, as inference runtimes do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

from hexenv.kernels import Conv2d, DepthwiseConv2d, Elementwise, MatMul, Reduce, Resize, Softmax, Stencil
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.graph import Graph

FULL_HD = (1080, 1920)
"""Height and width of the camera frames."""
MOBILENET_V2 = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Inverted residual groups of MobileNetV2: expansion, output channels, repeats, stride of the first (arXiv 1801.04381,
table 2)."""
PIXEL_BYTES = 2
"""Sums, differences and products of pixels are 16 bit."""
FEATURE_BYTES = 2
"""Feature maps are f16."""
BOXES = 6
"""Default boxes at each position of a detector head (SSD-Lite: three scales, two shapes)."""
CLASSES = 91
"""Classes of a detector head, background included (COCO)."""


@dataclass(frozen=True, slots=True)
class _Tensor:
    """A feature map: its buffer and shape."""

    buffer: str
    height: int
    width: int
    channels: int


def preview(height: int = FULL_HD[0], width: int = FULL_HD[1]) -> Graph:
    """Preview of a camera: temporal and spatial denoise, edge-adaptive sharpening, tone, and a display-size copy.

    Temporal denoise blends with the previous frame's result, a state buffer, so frames of a stream keep their order.
    """
    builder = GraphBuilder(f"preview {width}x{height}")
    _finish_preview(builder, "frame", height, width)
    return builder.build()


def raw_preview(height: int = FULL_HD[0], width: int = FULL_HD[1]) -> Graph:
    """Preview straight from the sensor, without an ISP: the camera pipe of Rake (raw to RGB), then :func:`preview`."""
    builder = GraphBuilder(f"raw_preview {width}x{height}")
    frame = builder.add("camera_pipe", Stencil("camera_pipe", height, width), "raw")
    _finish_preview(builder, frame, height, width)
    return builder.build()


def _finish_preview(builder: GraphBuilder, frame: str, height: int, width: int) -> None:
    denoised = _temporal_denoise(builder, frame, height, width)
    smooth = builder.add("smooth", Stencil("gaussian5x5", height, width), denoised)
    base = builder.add("base", Stencil("gaussian7x7", height, width), smooth)
    edges = builder.add("edges", Stencil("sobel3x3", height, width), smooth)
    mask = builder.add("edge_mask", Stencil("dilate3x3", height, width), edges)
    detail = builder.add("detail", _pixels("sub", height, width), smooth, base)
    gain = builder.add("detail_gain", _pixels("mul", height, width), detail, mask)
    sharp = builder.add("sharpen", _pixels("add", height, width), smooth, gain)
    tone = builder.add("tone", Stencil("conv3x3", height, width), sharp)
    builder.add("display", Resize(height // 2, width // 2, 3), tone)


def features(height: int = FULL_HD[0], width: int = FULL_HD[1]) -> Graph:
    """Corner features for tracking (AR, stabilisation): denoise, gradients, structure tensor, response, suppression."""
    builder = GraphBuilder(f"features {width}x{height}")
    denoised = _temporal_denoise(builder, "frame", height, width)
    gradient_x = builder.add("gradient_x", Stencil("sobel3x3", height, width), denoised)
    gradient_y = builder.add("gradient_y", Stencil("sobel3x3", height, width), denoised)
    moments = []
    for name, a, b in (
        ("xx", gradient_x, gradient_x),
        ("yy", gradient_y, gradient_y),
        ("xy", gradient_x, gradient_y),
    ):
        product = builder.add(f"product_{name}", _pixels("mul", height, width), a, b)
        moments.append(builder.add(f"window_{name}", Stencil("gaussian5x5", height, width), product))
    response = builder.add("response", _pixels("mul", height, width), *moments)
    builder.add("suppress", Stencil("dilate3x3", height, width), response)
    return builder.build()


def detector(size: int = 320) -> Graph:
    """SSD-Lite detector on MobileNetV2: frame resized to ``size``, backbone, two heads at strides 16 and 32."""
    builder = GraphBuilder(f"detector {size}")
    x = _Tensor(builder.add("resize", Resize(size, size, 3), "frame"), size, size, 3)
    taps = _mobilenet_v2(builder, x)
    scores = []
    for stride, tap in taps.items():
        for head, outputs in (("boxes", BOXES * 4), ("classes", BOXES * CLASSES)):
            mixed = _depthwise(builder, f"{head}_{stride}.depthwise", tap, 1)
            predicted = _conv(builder, f"{head}_{stride}", mixed, outputs, 1, 1)
            if head == "classes":
                rows = predicted.height * predicted.width * BOXES
                scores.append(builder.add(f"scores_{stride}", Softmax(rows, CLASSES), predicted.buffer))
    positions = sum(tap.height * tap.width for tap in taps.values()) * BOXES
    builder.add("best_class", Reduce(positions, CLASSES), *scores)
    return builder.build()


def classifier(size: int = 224) -> Graph:
    """MobileNetV2 1.0 classifier: 0.30 GMAC at 224 (arXiv 1801.04381)."""
    builder = GraphBuilder(f"classifier {size}")
    x = _Tensor(builder.add("resize", Resize(size, size, 3), "frame"), size, size, 3)
    top = _mobilenet_v2(builder, x)[32]
    pooled = builder.add("pool", Reduce(top.channels, top.height * top.width), top.buffer)
    logits = builder.add("classes", MatMul("f16", 1000, 1, top.channels), pooled)
    builder.add("scores", Softmax(1, 1000), logits)
    return builder.build()


PIPELINES: dict[str, Callable[..., Graph]] = {
    "preview": preview,
    "features": features,
    "detector": detector,
    "classifier": classifier,
    "raw_preview": raw_preview,
}
"""Vision jobs by name; their arguments are the frame or input size."""


PARAMETERS: dict[str, dict[str, int]] = {
    name: {key: p.default for key, p in signature(build).parameters.items()} for name, build in PIPELINES.items()
}
"""Their parameters with defaults, by name."""


def _pixels(kind: str, height: int, width: int) -> Elementwise:
    return Elementwise(kind, height * width, PIXEL_BYTES)


def _temporal_denoise(builder: GraphBuilder, frame: str, height: int, width: int) -> str:
    """Median against hot pixels, then a blend with the previous result; returns the state buffer of the result."""
    clean = builder.add("median", Stencil("median3x3", height, width), frame)
    blend = _pixels("add", height, width)
    return builder.update("temporal_blend", blend, "previous_frame", clean, "previous_frame")


def _mobilenet_v2(builder: GraphBuilder, x: _Tensor) -> dict[int, _Tensor]:
    """Backbone; returns the expanded map at stride 16 and the last map (stride 32), where detector heads attach."""
    taps: dict[int, _Tensor] = {}
    x = _conv(builder, "stem", x, 32, 3, 2)
    stride = 2
    for group, (expansion, channels, repeats, first_stride) in enumerate(MOBILENET_V2):
        for repeat in range(repeats):
            step = first_stride if repeat == 0 else 1
            name = f"group{group}.{repeat}"
            hidden = x if expansion == 1 else _conv(builder, f"{name}.expand", x, x.channels * expansion, 1, 1)
            if stride == 16 and step == 2:
                taps[16] = hidden
            stride *= step
            mixed = _depthwise(builder, f"{name}.depthwise", hidden, step)
            projected = _conv(builder, f"{name}.project", mixed, channels, 1, 1)
            if step == 1 and channels == x.channels:
                elements = projected.height * projected.width * channels
                added = builder.add(
                    f"{name}.add", Elementwise("add", elements, FEATURE_BYTES), x.buffer, projected.buffer
                )
                projected = _Tensor(added, projected.height, projected.width, channels)
            x = projected
    taps[32] = _conv(builder, "top", x, 1280, 1, 1)
    return taps


def _conv(builder: GraphBuilder, name: str, x: _Tensor, channels: int, kernel: int, stride: int) -> _Tensor:
    """Same-padded convolution."""
    height, width = -(-x.height // stride), -(-x.width // stride)
    operator = Conv2d(height, width, x.channels, channels, kernel, kernel, stride, stride)
    return _Tensor(builder.add(name, operator, x.buffer), height, width, channels)


def _depthwise(builder: GraphBuilder, name: str, x: _Tensor, stride: int) -> _Tensor:
    """Same-padded 3x3 depthwise convolution."""
    height, width = -(-x.height // stride), -(-x.width // stride)
    operator = DepthwiseConv2d(height, width, x.channels, 3, 3, stride, stride)
    return _Tensor(builder.add(name, operator, x.buffer), height, width, x.channels)
