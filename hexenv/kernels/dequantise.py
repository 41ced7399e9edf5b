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

Weight = Literal["q4_0", "q8_0", "f16", "q4_1", "iq4_nl", "mxfp4"]

F16_TILE_BYTES = 2048


DDR_TILE_BYTES: Mapping[str, int] = MappingProxyType(
    {"q4_0": 576, "q8_0": 1088, "f16": F16_TILE_BYTES, "q4_1": 640, "iq4_nl": 576, "mxfp4": 544}
)
"""Bytes of a 32 x 32 weight tile in DDR, for all formats that the backend takes. K-quants run on the CPU."""
VTCM_TILE_BYTES: Mapping[str, int] = MappingProxyType(
    {"q4_0": 640, "q8_0": 1152, "f16": F16_TILE_BYTES, "q4_1": 640, "iq4_nl": 640, "mxfp4": 640}
)
"""The same in VTCM, aligned to 128 bytes."""
HVX_BLOCK_BYTES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {"f16": (64,), "q4_1": (1280, 36), **dict.fromkeys(("q4_0", "q8_0", "iq4_nl", "mxfp4"), (1152, 36))}
)
"""VTCM of 32 values of a token on the HVX path: tiled (8 bit, replicated over the lanes, scales) or else flat."""
UNPACK_INSTRUCTIONS: Mapping[str, int] = MappingProxyType(
    {"q4_0": 98, "q8_0": 82, "q4_1": 108, "iq4_nl": 82, "mxfp4": 90}
)
"""HVX loads, arithmetic and stores to unpack a tile, counted in the backend's source."""

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
