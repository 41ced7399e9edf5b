"""Matrix multiplication of a mixture of experts: rows grouped by expert, the weights of each expert streamed once.

Sources: MUL_MAT_ID of the llama.cpp Hexagon backend (rows grouped by expert, each expert on the unpipelined HMX path)
is the default. EStream (arXiv 2609.06551): per tile DMA, HVX decode, HMX with two buffers for compressed and two for
decoded weights; an expert pool on flash storage behind a bounded DDR arena. BigMoMo (arXiv 2609.14643): experts of a
verification window grouped, computed in the order in which they are ready. The u8 x i4 format and its blocks of 64
rows: nntrainer HTP design note 46.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.chunks import TILE, Chunk, Footprint, blocks, choose_chunk, padded
from hexenv.kernels.cost import StageCost, Version, body_us
from hexenv.kernels.dequantise import (
    DDR_TILE_BYTES,
    F16_TILE_BYTES,
    HVX_BLOCK_BYTES,
    VTCM_TILE_BYTES,
    Weight,
    layout,
    unpack_us,
)
from hexenv.kernels.matmul import PREFETCH, SCALE_TABLE_BYTES, VECTOR_TOKENS, hvx_tile_us
from hexenv.kernels.techniques import between, check, one_of
from hexenv.kernels.variants import alone_on, best_of, doublings, per_class, ranges, vtcm_bound

ExpertWeight = Weight | Literal["i4"]
F32 = 4


@dataclass(frozen=True, slots=True)
class _Format:
    """How a weight format meets the engines."""

    ddr_tile_bytes: int
    vtcm_tile_bytes: int
    decoded_tile_bytes: int
    """fp16 copy that HVX makes for HMX, 0 where HMX takes the stored form."""
    value_bytes: int
    """Of an activation in VTCM, HMX path."""
    result_bytes: int
    row_block: int
    """Rows of one HMX step."""
    hvx_blocks: tuple[int, ...]
    """VTCM of 32 values of a row on the HVX path, best first."""


FORMATS: dict[str, _Format] = {
    **{
        name: _Format(ddr, VTCM_TILE_BYTES[name], F16_TILE_BYTES, 2, 2, TILE, HVX_BLOCK_BYTES[name])
        for name, ddr in DDR_TILE_BYTES.items()
    },
    "i4": _Format(512, 512, 0, 1, F32, 2 * TILE, HVX_BLOCK_BYTES["q4_0"]),
}
"""Formats of llama.cpp, multiplied in fp16, and i4 weights with a scale a column, multiplied as they are by u8 rows."""


@dataclass(frozen=True, slots=True)
class ExpertMatMul:
    """``(m x k) weights of an expert times its rows``, one expert after another: m outputs, k inner."""

    weight: ExpertWeight
    m: int
    k: int
    rows: tuple[int, ...]
    """Routed rows of each expert that has any."""
    follows: bool = False
    """The leaf before it has loaded its first expert (order ``ready``)."""
    dequant: str = layout()
    pipeline: str = one_of(
        "serial",
        "tiles",
        source="EStream: DMA, HVX decode and HMX of neighbouring weight tiles overlap, two compressed and two decoded "
        "buffers; serial = llama.cpp's MUL_MAT_ID, which starts anew with every expert",
    )
    paging: str = one_of(
        "resident",
        "storage",
        source="EStream: the expert pool is on flash storage behind a bounded DDR arena; resident = all in DDR",
    )
    cached: float = between(
        0.0, 0.0, 1.0, source="EStream: part of the routed experts that the DDR arena holds already (paging = storage)"
    )
    order: str = one_of(
        "routed",
        "ready",
        source="BigMoMo: experts run as their weights arrive, two alternating buffers; routed = each load is awaited",
    )
    grouping: str = one_of(
        "window",
        "token",
        source="BigMoMo: the weights of an expert serve all rows of a window; token = loaded again for every row",
    )

    family: ClassVar[str] = "experts"

    def __post_init__(self) -> None:
        check(self)
        if self.weight not in FORMATS:
            raise ConfigError(f"expert weight = {self.weight!r}; allowed: {', '.join(FORMATS)}")
        if not self.rows or min(self.rows) < 1:
            raise ConfigError(f"expert rows = {self.rows}; allowed: at least one expert, each with at least one row")

    @property
    def name(self) -> str:
        """For example ``experts q4_0 768x2048, 29 with 32 rows`` (m x k)."""
        return f"experts {self.weight} {self.m}x{self.k}, {len(self.rows)} with {sum(self.rows)} rows"

    @property
    def row_use(self) -> float:
        """Part of the rows of HMX steps that carry routed rows: rows over whole row blocks of each expert."""
        block = FORMATS[self.weight].row_block
        return sum(self.rows) / sum(padded(rows, block) for rows in self._passes)

    @property
    def _format(self) -> _Format:
        return FORMATS[self.weight]

    @property
    def _passes(self) -> tuple[int, ...]:
        """Rows of each time that the weights of an expert are brought in."""
        return self.rows if self.grouping == "window" else (1,) * sum(self.rows)

    @property
    def _weight_tiles(self) -> int:
        """Of one expert."""
        return blocks(self.m, TILE) * blocks(self.k, TILE)

    @property
    def _activations(self) -> int:
        return sum(self.rows) * self.k

    @property
    def _outputs(self) -> int:
        return sum(self.rows) * self.m

    @property
    def loaded_bytes(self) -> float:
        """Weights that come from storage."""
        if self.paging == "resident":
            return 0.0
        return (1.0 - self.cached) * len(self._passes) * self._weight_tiles * self._format.ddr_tile_bytes

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX and HMX in every tile class that fits.

        There is no split of outputs between them as in a dense matmul: few rows an expert are bound by DDR, which a
        split does not relieve, and many rows by HVX.
        """

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            buffers = 2 if self.pipeline == "tiles" else 1
            chunks = self._chunks(budget, buffers)
            return best_of(device, (self._hmx(device, tile_class, chunk, buffers) for chunk in chunks))

        for cost in per_class(device, hvx, hmx):
            yield self._paged(device, self._drained(device, cost))

    def split(self, parts: int) -> tuple[ExpertMatMul, ...]:
        """Groups of experts, of like load; ranges of outputs where there are too few experts."""
        groups = min(parts, len(self.rows))
        pieces = [
            replace(self, rows=self.rows[group::groups], m=size)
            for group in range(groups)
            for size in ranges(self.m, blocks(parts, groups), TILE)
        ]
        return (replace(pieces[0], follows=self.follows), *(replace(piece, follows=True) for piece in pieces[1:]))

    def footprint(self, buffers: int) -> Footprint:
        """VTCM of an HMX chunk: stored and decoded weights a column, activations a row, results, scale table.

        With ``buffers`` = 2 there are two of stored weights, two of decoded ones and two of results.
        """
        form, column_tiles = self._format, blocks(self.k, TILE)
        return Footprint(
            output=buffers * column_tiles * (form.vtcm_tile_bytes + form.decoded_tile_bytes) // TILE,
            token=column_tiles * TILE * form.value_bytes,
            element=form.result_bytes * buffers,
            fixed=SCALE_TABLE_BYTES,
        )

    def _chunks(self, budget: int, buffers: int) -> Iterator[Chunk]:
        """Chunks to try: the one of llama.cpp's rule, or the tile sizes that the search of EStream goes through."""
        footprint, rows = self.footprint(buffers), max(self._passes)
        if self.pipeline == "serial":
            chunk = choose_chunk(self.m, rows, footprint, budget)
            if chunk:
                yield chunk
            return
        for outputs in doublings(TILE, padded(self.m)):
            left = budget - footprint.fixed - outputs * footprint.output
            tokens = min(left // (footprint.token + outputs * footprint.element) // TILE * TILE, padded(rows))
            if tokens > 0:
                yield Chunk(outputs, tokens)

    def _hmx(self, device: Device, tile_class: int, chunk: Chunk, buffers: int) -> StageCost:
        """All rows prepared first, then DMA, decode, multiply and store chunk by chunk, expert after expert."""
        form, overlapped = self._format, device.pipeline == "overlapped"
        streams = sum(blocks(rows, chunk.tokens) for rows in self._passes)
        chunks = streams * blocks(self.m, chunk.outputs)
        weight_tiles = streams * self._weight_tiles
        decode_us = 0.0 if self.weight == "i4" else weight_tiles * unpack_us(device, self.weight, self.dequant)
        output_us = self._outputs * device.output_ns * 1e-3
        step_us = device.hmx_i4_tile_us if self.weight == "i4" else device.hmx_tile_us
        prepare_ns = device.quantise_ns if self.weight == "i4" else device.activation_prep_ns
        activation_bytes = self._activations * F32
        decoded = form.vtcm_tile_bytes if form.decoded_tile_bytes else 0
        steps = sum(blocks(rows, form.row_block) for rows in self._passes)
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=chunks,
            depth=buffers,
            vtcm_bytes=self.footprint(buffers).bytes(chunk.outputs, chunk.tokens),
            ddr_in_bytes=weight_tiles * form.ddr_tile_bytes,
            ddr_out_bytes=self._outputs * F32,
            hvx_before_us=decode_us,
            hvx_after_us=output_us,
            hvx_after_floor_us=self._outputs * F32 / device.hvx_store_bytes_per_us,
            hmx_us=steps * self._weight_tiles * step_us,
            prologue_bytes=activation_bytes,
            prologue_hvx_us=self._activations * prepare_ns * 1e-3,
            prologue_floor_us=0.0 if overlapped else activation_bytes / device.hvx_load_bytes_per_us,
            fixed_us=device.hmx_fixed_us if overlapped else device.hmx_fixed_serial_us,
            fork_joins=2 * chunks if overlapped else 0,
            phi=vtcm_bound(device, weight_tiles * decoded + self._outputs * form.result_bytes, decode_us + output_us),
        )

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """Rows of an expert resident in 8 bit, each thread streams blocks of 32 weight columns through its own ring."""
        form, column_tiles, rows = self._format, blocks(self.k, TILE), max(self._passes)
        column_blocks = blocks(self.m, TILE)
        unpacked = "q4_0" if self.weight == "i4" else self.weight
        ring_bytes = device.contexts * column_tiles * form.vtcm_tile_bytes
        fits = [size for size in form.hvx_blocks if rows * column_tiles * size + ring_bytes <= budget]
        if not fits:
            return None
        activation_bytes = rows * column_tiles * fits[0]
        prefetch = min(PREFETCH[0] if rows <= VECTOR_TOKENS else PREFETCH[1], blocks(column_blocks, device.contexts))
        while activation_bytes + prefetch * ring_bytes > budget:
            prefetch //= 2
        weight_tiles = len(self._passes) * self._weight_tiles
        hvx_us = self._weight_tiles * sum(hvx_tile_us(device, unpacked, rows) for rows in self._passes)
        read_bytes = weight_tiles * form.vtcm_tile_bytes + self._weight_tiles * sum(self.rows) * fits[0]
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=len(self._passes) * blocks(column_blocks, device.contexts),
            depth=2,
            vtcm_bytes=activation_bytes + prefetch * ring_bytes,
            ddr_in_bytes=weight_tiles * form.ddr_tile_bytes,
            ddr_out_bytes=self._outputs * F32,
            hvx_before_us=hvx_us,
            prologue_bytes=self._activations * F32,
            prologue_hvx_us=self._activations * device.quantise_ns * 1e-3,
            fixed_us=device.kernel_fixed_us,
            fork_joins=len(self._passes),
            phi=vtcm_bound(device, read_bytes, hvx_us),
        )

    def _drained(self, device: Device, cost: StageCost) -> StageCost:
        """In the serial pipeline the next expert starts when the one before has drained: one more fill each."""
        if self.pipeline == "tiles":
            return cost
        _, fill = body_us(cost, device.contexts, device.fork_join_us, device.ddr_bytes_per_us)
        return replace(cost, fixed_us=cost.fixed_us + (len(self._passes) - 1) * fill)

    def _paged(self, device: Device, cost: StageCost) -> StageCost:
        """Adds the loads from storage, their writes to DDR, and what of them the order of experts leaves exposed.

        ``routed``: every load is waited for, so loads and compute add up. ``ready``: an expert is loaded while another
        one computes, and a cached one computes first, so only the last compute (and a first load with nothing to hide
        behind) stays exposed; a leaf that follows another one has even that behind it.
        """
        if self.loaded_bytes == 0.0:
            return cost
        load_us, compute_us = self.loaded_bytes / device.storage_bytes_per_us, alone_on(device, cost)
        experts = len(self._passes)
        if self.order == "routed":
            whole_us = load_us + compute_us
        elif self.follows:
            whole_us = max(load_us, compute_us)
        else:
            first_us = load_us / experts if self.cached == 0.0 else 0.0
            whole_us = max(load_us + compute_us / experts, compute_us + first_us)
        paged = replace(cost, storage_us=load_us, ddr_out_bytes=cost.ddr_out_bytes + self.loaded_bytes)
        return replace(paged, fixed_us=cost.fixed_us + max(0.0, whole_us - alone_on(device, paged)))
