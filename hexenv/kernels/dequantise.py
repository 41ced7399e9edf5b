"""Weight formats, what unpacking a tile of each costs, and unpacking as a pass of its own.

Sources: tile bytes and unpackers of the llama.cpp Hexagon backend (``htp/matmul-ops.h``, ``hmx-mm-kernels-tiled.h``);
layouts and their shares: arXiv 2509.23324 (Scaling TTC), section 7.4 and figure 15; the pass of its own is what
TileFuse (arXiv 2606.11357) fuses away.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.chunks import TILE, blocks
from hexenv.kernels.cost import StageCost
from hexenv.kernels.stream import stream_cost
from hexenv.kernels.techniques import check, one_of
from hexenv.kernels.variants import per_class, ranges

Weight = Literal[
    "q4_0",
    "q8_0",
    "f16",
    "q4_1",
    "iq4_nl",
    "mxfp4",
    "q5_0",
    "q5_1",
    "q2_k",
    "q3_k",
    "q4_k",
    "q5_k",
    "q6_k",
    "iq4_xs",
]

F16_TILE_BYTES = 2048
BACKEND_WEIGHTS: tuple[Weight, ...] = ("q4_0", "q8_0", "f16", "q4_1", "iq4_nl", "mxfp4")
"""Formats that the llama.cpp Hexagon backend takes. Matmuls with others run on the CPU there; their costs here are
those of a kernel that nobody has published."""

DDR_TILE_BYTES: Mapping[str, int] = MappingProxyType(
    {
        **{"q4_0": 576, "q8_0": 1088, "f16": F16_TILE_BYTES, "q4_1": 640, "iq4_nl": 576, "mxfp4": 544},
        **{"q5_0": 704, "q5_1": 768, "q2_k": 336, "q3_k": 440, "q4_k": 576, "q5_k": 704, "q6_k": 840, "iq4_xs": 544},
    }
)
"""Bytes of a 32 x 32 weight tile in DDR: as the backend repacks it, or 1024 values of the blocks of ggml."""
VTCM_TILE_BYTES: Mapping[str, int] = MappingProxyType(
    {name: -(-size // 128) * 128 for name, size in DDR_TILE_BYTES.items()}
)
"""The same in VTCM, aligned to 128 bytes."""
WITH_MINIMUM = ("q4_1", "q5_1", "q2_k", "q4_k", "q5_k")
"""Formats with a scale and a minimum a block: their dot products also need the sum of the block's activations."""
HVX_BLOCK_BYTES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        **dict.fromkeys(DDR_TILE_BYTES, (1152, 36)),
        **dict.fromkeys(WITH_MINIMUM, (1280, 36)),
        "f16": (64,),
    }
)
"""VTCM of 32 values of a token on the HVX path: tiled (8 bit, replicated over the lanes, scales) or else flat."""

_BIT_PLANE = 17
"""Instructions that add a plane of 1 bit to a tile: a load, and two for each of the 8 vectors of bytes."""
_TWO_BIT_PLANE = 26
"""The same for 2 bits: two loads, and three a vector."""
_SMALL_SCALES = 8
"""Decoding 4- or 6-bit scales of the 32 or 64 blocks of a tile: a load, shifts, masks, a product with the large one."""
_TWO_BIT_BASE = 2
"""2-bit values instead of nibbles: two loads less, four shifts and masks more."""
UNPACK_INSTRUCTIONS: Mapping[str, int] = MappingProxyType(
    {
        **{"q4_0": 98, "q8_0": 82, "q4_1": 108, "iq4_nl": 82, "mxfp4": 90},
        "q5_0": 98 + _BIT_PLANE,
        "q5_1": 108 + _BIT_PLANE,
        "q2_k": 108 + _TWO_BIT_BASE + _SMALL_SCALES,
        "q3_k": 98 + _TWO_BIT_BASE + _BIT_PLANE + _SMALL_SCALES,
        "q4_k": 108 + _SMALL_SCALES,
        "q5_k": 108 + _BIT_PLANE + _SMALL_SCALES,
        "q6_k": 98 + _TWO_BIT_PLANE + _SMALL_SCALES,
        "iq4_xs": 82 + _SMALL_SCALES,
    }
)
"""HVX loads, arithmetic and stores to unpack a tile. Those of :data:`BACKEND_WEIGHTS` are counted in the backend's
source. The others are not published (confidence D): the closest of those, and what the format adds to it."""

LAYOUT_SOURCE = (
    "Scaling TTC (arXiv 2509.23324): scatter = stored by columns, each value scattered to its place; hmx_layout = "
    "stored in HMX order; coalesced = and in whole vector registers; none = copied without unpacking, a bound"
)


def layout() -> Any:
    """The technique ``dequant``: how quantised weights lie in DDR.

    The tiles of llama.cpp are ``coalesced``: in HMX order, 512 bytes of nibbles that fill four registers, one scale
    load a tile and no scatter.
    """
    return one_of("coalesced", "hmx_layout", "scatter", "none", source=LAYOUT_SOURCE)


def check_weight(family: str, weight: str) -> None:
    """Refuse a weight format that nobody takes.

    Raises:
        ConfigError: such a format.
    """
    if weight not in DDR_TILE_BYTES:
        raise ConfigError(f"{family} weight = {weight!r}; allowed: {', '.join(DDR_TILE_BYTES)}")


def unpack_us(device: Device, weight: str, dequant: str) -> float:
    """Context-time to make one fp16 tile in HMX order of a weight tile, us.

    A format without a measured time takes Q4_0's, in proportion to the instructions. The layouts' shares were measured
    on whole GEMVs bound by unpacking, so they are applied to it.
    """
    if weight == "f16":
        return device.convert_f16_us
    if device.pipeline == "serial":
        coalesced = device.dequant_serial_us
    elif weight == "q8_0":
        coalesced = device.dequant_q8_0_us
    else:
        coalesced = device.dequant_q4_0_us * instruction_ratio(weight)
    ratios = {
        "coalesced": 1.0,
        "hmx_layout": device.dequant_hmx_layout_ratio,
        "scatter": device.dequant_scatter_ratio,
        "none": device.dequant_none_ratio,
    }
    return coalesced * ratios[dequant]


def instruction_ratio(weight: str) -> float:
    """Instructions to unpack a tile of a quantised format, against Q4_0."""
    return UNPACK_INSTRUCTIONS[weight] / UNPACK_INSTRUCTIONS["q4_0"]


@dataclass(frozen=True, slots=True)
class Dequantise:
    """``m x k`` quantised weights to fp16 tiles in DDR."""

    weight: Weight
    m: int
    k: int
    dequant: str = layout()

    family: ClassVar[str] = "dequantise"

    def __post_init__(self) -> None:
        check_weight(self.family, self.weight)
        check(self)

    @property
    def name(self) -> str:
        """For example ``dequantise q4_0 6144x2048``."""
        return f"dequantise {self.weight} {self.m}x{self.k}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX only: HMX does not unpack."""
        tiles = blocks(self.m, TILE) * blocks(self.k, TILE)
        in_bytes = tiles * DDR_TILE_BYTES[self.weight]
        packets = tiles * unpack_us(device, self.weight, self.dequant) / device.packet_us

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return stream_cost(device, tile_class, budget, in_bytes, tiles * F16_TILE_BYTES, packets)

        yield from per_class(device, hvx)

    def split(self, parts: int) -> tuple[Dequantise, ...]:
        """Ranges of weight rows."""
        return tuple(replace(self, m=size) for size in ranges(self.m, parts, TILE))
