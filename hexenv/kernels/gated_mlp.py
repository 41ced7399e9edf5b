"""The gated feed-forward layer as one operator: gate, up, gated unit and down, whose product never leaves VTCM.

Mechanism: DeepFusionKernel (ACL 26). The product of n tokens takes n x ffn fp16 values of VTCM on HMX; where they do
not fit, blocks of tokens follow one another and each streams the weights again. Stages as in the llama.cpp Hexagon
matmul: HVX unpacks a chunk of weights and finishes the chunk before (gated unit, or fp32 output) while HMX multiplies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.chunks import TILE, Footprint, blocks, padded
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.dequantise import (
    DDR_TILE_BYTES,
    HVX_BLOCK_BYTES,
    VTCM_TILE_BYTES,
    Weight,
    check_weight,
    layout,
    unpack_us,
)
from hexenv.kernels.elementwise import packets
from hexenv.kernels.matmul import MatMul, hmx_buffers, hvx_tile_us
from hexenv.kernels.techniques import check
from hexenv.kernels.variants import best_of, doublings, per_class, ranges, vtcm_bound

F16, F32 = 2, 4
GLUS = ("swiglu", "geglu")


@dataclass(frozen=True, slots=True)
class GatedMlp:
    """``down(glu(gate(x), up(x)))`` over ``tokens`` rows of ``hidden`` fp32 values, ``ffn`` wide inside."""

    weight: Weight
    glu: str
    tokens: int
    hidden: int
    ffn: int
    adds: bool = False
    """A leaf over a range of ``ffn`` that adds its part of the sum to that of the leaf before."""
    dequant: str = layout()

    family: ClassVar[str] = "matmul"

    def __post_init__(self) -> None:
        check_weight("gated mlp", self.weight)
        if self.glu not in GLUS:
            raise ConfigError(f"gated mlp glu = {self.glu!r}; allowed: {', '.join(GLUS)}")
        check(self)

    @property
    def name(self) -> str:
        """For example ``swiglu mlp q4_0 1x2048x6144`` (tokens x hidden x ffn)."""
        adds = " adds" if self.adds else ""
        return f"{self.glu} mlp {self.weight} {self.tokens}x{self.hidden}x{self.ffn}{adds}"

    @property
    def _gate_and_up(self) -> MatMul:
        return MatMul(self.weight, 2 * padded(self.ffn), self.tokens, self.hidden)

    @property
    def _down(self) -> MatMul:
        return MatMul(self.weight, self.hidden, self.tokens, self.ffn)

    @property
    def _weight_tiles(self) -> int:
        return self._gate_and_up.weight_tiles + self._down.weight_tiles

    @property
    def _weight_bytes(self) -> int:
        return self._weight_tiles * DDR_TILE_BYTES[self.weight]

    @property
    def _outputs(self) -> int:
        return self.tokens * self.hidden

    @property
    def _read_back_bytes(self) -> int:
        return self._outputs * F32 if self.adds else 0

    @property
    def _product(self) -> int:
        return self.tokens * self.ffn

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX where all tokens fit VTCM, and HMX."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            sizes = doublings(TILE, padded(self.tokens))
            costs = (self._hmx(device, tile_class, budget, block) for block in sizes)
            return best_of(device, [cost for cost in costs if cost is not None])

        yield from per_class(device, hvx, hmx)

    def split(self, parts: int) -> tuple[GatedMlp, ...]:
        """Ranges of tokens, each with all weights, or of ``ffn``, each with a part of the sum; whichever moves less.

        A part of the sum is read, added to and written; its leaf prepares all inputs again.
        """
        if self._weight_bytes < 3 * self._outputs * F32 and self.tokens >= 2 * TILE * parts:
            return tuple(replace(self, tokens=size) for size in ranges(self.tokens, parts, TILE))
        sizes = ranges(self.ffn, parts, TILE)
        return tuple(replace(self, ffn=size, adds=self.adds or part > 0) for part, size in enumerate(sizes))

    def _hmx(self, device: Device, tile_class: int, budget: int, block: int) -> StageCost | None:
        """``block`` tokens at a time: columns of gate and up in pairs of tiles, then columns of down."""
        overlapped = device.pipeline == "overlapped"
        buffers = hmx_buffers(self.tokens)
        product_bytes = block * padded(self.ffn) * F16
        inner = self._gate_and_up.footprint(buffers)
        inner = replace(inner, fixed=inner.fixed + product_bytes)
        outer = self._down.footprint(buffers)  # its activations are the product
        pairs = _columns(inner, block, budget, 2 * padded(self.ffn)) // (2 * TILE) * 2 * TILE
        columns = _columns(outer, block, budget, padded(self.hidden))
        if pairs <= 0 or columns <= 0:
            return None
        token_blocks = blocks(self.tokens, block)
        chunks = token_blocks * (blocks(2 * padded(self.ffn), pairs) + blocks(self.hidden, columns))
        loaded_tiles = self._weight_tiles * token_blocks
        outputs = self._outputs
        before_us = loaded_tiles * unpack_us(device, self.weight, self.dequant)
        after_us = outputs * device.output_ns * 1e-3 + packets(self.glu, self._product, device) * device.packet_us
        read_bytes = loaded_tiles * VTCM_TILE_BYTES[self.weight] + (2 * self._product + outputs) * F16
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=chunks,
            depth=2 if overlapped and buffers == 2 else 1,
            vtcm_bytes=max(inner.bytes(pairs, block), outer.bytes(columns, block)),
            ddr_in_bytes=self._weight_bytes * token_blocks + self._read_back_bytes,
            ddr_out_bytes=outputs * F32,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hvx_after_floor_us=max(
                outputs * F32 / device.hvx_store_bytes_per_us, self._read_back_bytes / device.hvx_load_bytes_per_us
            ),
            hmx_us=self._weight_tiles * blocks(self.tokens, TILE) * device.hmx_tile_us,
            prologue_bytes=outputs * F32,
            prologue_hvx_us=outputs * device.activation_prep_ns * 1e-3,
            prologue_floor_us=0.0 if overlapped else outputs * F32 / device.hvx_load_bytes_per_us,
            fixed_us=device.hmx_fixed_us if overlapped else device.hmx_fixed_serial_us,
            fork_joins=2 * chunks if overlapped else 0,
            phi=vtcm_bound(device, read_bytes, before_us + after_us),
        )

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """Three GEMVs: quantised inputs, the fp32 product and its quantised copy stay resident, weights stream."""
        hidden_tiles, ffn_tiles = blocks(self.hidden, TILE), blocks(self.ffn, TILE)
        ring_bytes = device.contexts * max(hidden_tiles, ffn_tiles) * VTCM_TILE_BYTES[self.weight]

        def resident(block_bytes: int) -> int:
            return self.tokens * ((hidden_tiles + ffn_tiles) * block_bytes + padded(self.ffn) * F32)

        fits = [size for size in HVX_BLOCK_BYTES[self.weight] if resident(size) + ring_bytes <= budget]
        if not fits:
            return None
        outputs = self._outputs
        hvx_us = self._weight_tiles * hvx_tile_us(device, self.weight, self.tokens)
        hvx_us += packets(self.glu, self._product, device) * device.packet_us
        hvx_us += self._product * device.quantise_ns * 1e-3
        read_bytes = self._weight_tiles * (VTCM_TILE_BYTES[self.weight] + self.tokens * fits[0])
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=blocks(2 * ffn_tiles, device.contexts) + blocks(hidden_tiles, device.contexts),
            depth=2,
            vtcm_bytes=resident(fits[0]) + ring_bytes,
            ddr_in_bytes=self._weight_bytes + self._read_back_bytes,
            ddr_out_bytes=outputs * F32,
            hvx_before_us=hvx_us,
            prologue_bytes=outputs * F32,
            prologue_hvx_us=outputs * device.quantise_ns * 1e-3,
            fixed_us=device.kernel_fixed_us,
            fork_joins=3,
            phi=vtcm_bound(device, read_bytes + 2 * self._product * F32, hvx_us),
        )


def _columns(footprint: Footprint, tokens: int, budget: int, most: int) -> int:
    """Weight columns, a multiple of 32, that fit beside ``tokens`` tokens; 0 if none do."""
    room = budget - footprint.fixed - tokens * footprint.token
    return min(max(room, 0) // (footprint.output + tokens * footprint.element) // TILE * TILE, most)
