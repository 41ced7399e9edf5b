"""What the silicon can do: every hardware number of the kernels and the engine, loaded from one TOML a device."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hexenv.device.constants import Constant, parse_constant
from hexenv.errors import ConfigError

PIPELINES = ("overlapped", "serial")
"""Generations of the HMX matmul kernel: current (DMA, HVX and HMX overlap) and older (HVX and HMX take turns)."""
MAX_CONTEXTS = 10
"""HVX contexts a device may have; the llama.cpp backend has the same hard cap."""


def _constant(unit: str) -> Any:
    return field(metadata={"unit": unit})


@dataclass(frozen=True)
class Device:
    """One NPU. Each constant is a plain number in the unit of its name; :attr:`constants` adds source and range.

    A *packet* is one issue slot of an HVX context, a *vector* is 128 bytes, a *tile* is a 32 x 32 block. Context-time
    is the time one HVX context needs. Devices compare and hash by their values.
    """

    name: str
    pipeline: str
    """One of :data:`PIPELINES`."""
    constants: Mapping[str, Constant] = field(repr=False, compare=False)

    contexts: int = _constant("count")
    """HVX contexts, H."""
    vtcm_bytes: int = _constant("bytes")
    ddr_bytes_per_us: float = _constant("bytes/us")
    """DDR bandwidth of DMA with source bypass, large chunks."""
    hvx_load_bytes_per_us: float = _constant("bytes/us")
    """DDR read by HVX loads with l2fetch, all contexts together."""
    hvx_store_bytes_per_us: float = _constant("bytes/us")
    """DDR write by HVX stores, all contexts together."""
    vtcm_read_bytes_per_us: float = _constant("bytes/us")
    """VTCM to one HVX context."""
    vtcm_write_bytes_per_us: float = _constant("bytes/us")
    """One HVX context to VTCM."""
    vtcm_hmx_bytes_per_us: float = _constant("bytes/us")
    """VTCM to HMX, fp16 operands."""
    hmx_tile_us: float = _constant("us")
    """One 32 x 32 x 32 fp16 tile product."""
    hmx_i4_tile_us: float = _constant("us")
    """One 64 x 32 x 32 product of u8 rows and i4 weights."""
    packet_us: float = _constant("us")
    """One HVX packet of one context."""
    fork_join_us: float = _constant("us")
    """One fork-join over the HVX worker threads."""
    beta: float = _constant("ratio")
    """How much HVX work bound by VTCM reads slows down under HMX traffic of another stage."""
    eta_shared: float = _constant("ratio")
    """DDR efficiency while two stages stream."""

    kernel_fixed_us: float = _constant("us")
    """Set-up and flush of a kernel on HVX."""
    hmx_fixed_us: float = _constant("us")
    """Set-up and flush of an HMX matmul."""
    hmx_fixed_serial_us: float = _constant("us")
    """The same in the older, serial generation."""
    dequant_q4_0_us: float = _constant("us")
    """Context-time to unpack one Q4_0 weight tile to fp16."""
    dequant_q8_0_us: float = _constant("us")
    convert_f16_us: float = _constant("us")
    """Context-time to bring one fp16 tile into HMX layout."""
    dequant_none_ratio: float = _constant("ratio")
    """Time to copy a quantised weight tile without unpacking it, against unpacking it."""
    dequant_hmx_layout_ratio: float = _constant("ratio")
    """Time to unpack weights stored in HMX order but not in whole vectors, against whole vectors."""
    dequant_scatter_ratio: float = _constant("ratio")
    """The same for weights stored by columns, each value scattered to its place."""
    dequant_serial_us: float = _constant("us")
    """Context-time per weight tile of any format in the serial generation."""
    activation_prep_ns: float = _constant("ns")
    """Context-time to turn one fp32 activation into an fp16 tile."""
    output_ns: float = _constant("ns")
    """Context-time to turn one fp16 result into fp32 and store it."""
    quantise_ns: float = _constant("ns")
    """Context-time to quantise one fp32 activation to 8 bit (HVX matmul)."""
    hvx_unpack_q4_0_us: float = _constant("us")
    """Context-time of an HVX matmul to unpack one weight tile, whatever the tokens."""
    hvx_unpack_q8_0_us: float = _constant("us")
    hvx_dot_us: float = _constant("us")
    """Context-time of an HVX matmul for one 8-bit weight tile and one token."""
    hvx_fp16_flop_per_us: float = _constant("flop/us")
    """fp16 multiply-add rate of one context (a multiply-add is 2)."""

    softmax_element_ns: float = _constant("ns")
    """Context-time of the attention softmax for one score."""
    softmax_row_us: float = _constant("us")
    """Context-time of the attention softmax for one query row and KV block (reductions, running maximum, diagonal)."""
    softmax_move_operations: float = _constant("operations")
    """HVX operations of the attention softmax on one vector of 64 scores: load, mask, store. They and the four below
    only divide ``softmax_element_ns`` into pieces."""
    softmax_scale_operations: float = _constant("operations")
    """Scale, add the mask."""
    softmax_max_operations: float = _constant("operations")
    softmax_exp_operations: float = _constant("operations")
    softmax_sum_operations: float = _constant("operations")
    softmax_row_spread_operations: float = _constant("operations")
    """HVX operations of the attention softmax on one query row and KV block: spread the maximum over the lanes. They
    and the four below only divide ``softmax_row_us`` into pieces."""
    softmax_row_max_operations: float = _constant("operations")
    """Maximum over the lanes, running maximum."""
    softmax_row_sum_operations: float = _constant("operations")
    """Sum over the lanes, running sum."""
    softmax_row_alpha_operations: float = _constant("operations")
    """Correction factor."""
    softmax_row_diagonal_operations: float = _constant("operations")
    """Scatter into a diagonal tile."""
    exp_f32_ratio: float = _constant("ratio")
    """Context-time of an fp32 exponential, in fp16 polynomials."""
    exp_table_ratio: float = _constant("ratio")
    """Context-time of an exponential read from a table, the wait for its gather included, in fp16 polynomials."""
    gather_us: float = _constant("us")
    """Gather unit, all contexts together: 64 fp16 values from VTCM."""
    stream_packets: float = _constant("packets")
    """Load, convert and store one vector of a streaming kernel."""
    arithmetic_packets: float = _constant("packets")
    """One add, multiply, maximum ... on a vector of 32 fp32."""
    exp_packets: float = _constant("packets")
    """One exponential on a vector of 32 fp32."""
    divide_packets: float = _constant("packets")
    """One reciprocal, division or square root on a vector of 32 fp32."""
    reduce_row_packets: float = _constant("packets")
    """One horizontal reduction over the lanes of a vector, and its broadcast."""
    im2col_packets: float = _constant("packets")
    """Gather one vector of 64 fp16 into HMX layout for a convolution."""
    resize_packets: float = _constant("packets")
    """Bilinear interpolation of one vector of 128 outputs."""
    gaussian3x3_packets: float = _constant("packets")
    """One vector of 128 u8 pixels; the stencils below likewise."""
    gaussian5x5_packets: float = _constant("packets")
    gaussian7x7_packets: float = _constant("packets")
    sobel3x3_packets: float = _constant("packets")
    median3x3_packets: float = _constant("packets")
    dilate3x3_packets: float = _constant("packets")
    box3x3_packets: float = _constant("packets")
    conv3x3_packets: float = _constant("packets")
    """General 3x3 filter with 32-bit sums."""
    conv3x3a16_packets: float = _constant("packets")
    """The same with 16-bit sums."""
    camera_pipe_packets: float = _constant("packets")
    """Raw to RGB: hot pixels, demosaic, colour matrix, tone curve."""
    image_to_tiles_packets: float = _constant("packets")
    """128 u8 pixels to fp16 tiles."""
    tiles_to_image_packets: float = _constant("packets")
    """fp16 tiles to 128 u8 pixels, rounded and clamped."""

    batch_us: float = _constant("us")
    """Host to NPU and back around one batch."""
    op_us: float = _constant("us")
    """One more operator inside a batch."""
    entry_dsp_us: float = _constant("us")
    """Start of one composite, or a join, with the scheduler on the NPU."""
    entry_host_us: float = _constant("us")
    """The same with the scheduler on the host."""
    decision_dsp_us: float = _constant("us")
    """One scheduler decision on the NPU."""
    decision_host_us: float = _constant("us")
    """One scheduler decision on the host."""
    handoff_us: float = _constant("us")
    """HMX lock passed from one graph to another."""
    decode_gap_us: float = _constant("us")
    """Host time between two decode steps of a language model."""
    storage_bytes_per_us: float = _constant("bytes/us")
    """Flash storage (UFS) to DDR, large sequential reads."""
    window_bytes: int = _constant("bytes")
    """Buffers that one NPU session has mapped at a time."""
    remap_bytes_per_us: float = _constant("bytes/us")
    """Unmapping and mapping of buffers by the host."""
    jit_first_us: float = _constant("us")
    """Compile a fused kernel at the first use of a combination."""
    jit_hit_us: float = _constant("us")
    """Find it in the kernel cache at a later use."""

    def __post_init__(self) -> None:
        if self.pipeline not in PIPELINES:
            raise ConfigError(f"device {self.name}: pipeline = {self.pipeline!r}; allowed: {', '.join(PIPELINES)}")

    @property
    def tile_fractions(self) -> tuple[float, ...]:
        """VTCM budget of each tile class, as a part of VTCM."""
        return (1 / 8, 1 / 4, 1 / 2, 1.0)

    def with_pipeline(self, pipeline: str) -> Device:
        """The same silicon with another generation of the matmul kernel (see :data:`PIPELINES`)."""
        return dataclasses.replace(self, pipeline=pipeline)

    def with_values(self, **values: float) -> Device:
        """The same device with other values for some constants (sensitivity, domain randomisation).

        Raises:
            ConfigError: an unknown constant, or a value outside its range.
        """
        constants = dict(self.constants)
        for key, value in values.items():
            if key not in constants:
                raise ConfigError(f"device {self.name}: unknown constant {key!r}; allowed: {', '.join(constants)}")
            old = constants[key]
            if not old.low <= value <= old.high:
                raise ConfigError(
                    f"device {self.name}: {key} = {value:g} {old.unit}; allowed: {old.low:g} to {old.high:g}"
                )
            constants[key] = dataclasses.replace(old, value=value)
        changes: dict[str, Any] = {key: constants[key].value for key in values}
        return dataclasses.replace(self, constants=MappingProxyType(constants), **changes)


UNITS: Mapping[str, str] = MappingProxyType(
    {f.name: f.metadata["unit"] for f in dataclasses.fields(Device) if "unit" in f.metadata}
)
"""Every constant a device file must give, and its unit."""
_WHOLE = ("count", "bytes")
_POSITIVE = ("count", "bytes", "bytes/us", "flop/us")
_FOLDER = Path(__file__).parent


def device_names() -> tuple[str, ...]:
    """Names of the devices that come with the package."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load_device(name_or_path: str) -> Device:
    """A built-in device by name (see :func:`device_names`), or any device file by path (ends in ``.toml``).

    Raises:
        ConfigError: no such device or file, or a file that is not a valid device.
    """
    if name_or_path in device_names():
        return _parse(_FOLDER / f"{name_or_path}.toml")
    path = Path(name_or_path)
    if path.suffix != ".toml":
        known = ", ".join(device_names())
        raise ConfigError(f"unknown device {name_or_path!r}; known: {known}, or the path of a .toml file")
    return _parse(path)


def _parse(file: Path, above: tuple[Path, ...] = ()) -> Device:
    """Read a device file; ``above`` are the files that build on it."""
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"device file {file}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"device file {file}: not valid TOML: {error}") from error
    needed = ("name", "pipeline", "constants")
    top = (*needed, "base")
    for key in table:
        if key not in top:
            raise ConfigError(f"{file}: unknown key {key!r}; allowed: {', '.join(top)}")
    for key in needed:
        if key not in table:
            raise ConfigError(f"{file}: key {key!r} is missing; needed: {', '.join(needed)}")
    name, pipeline, tables = (table[key] for key in needed)
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{file}: name = {name!r}; allowed: a text")
    if pipeline not in PIPELINES:
        raise ConfigError(f"{file}: pipeline = {pipeline!r}; allowed: {', '.join(PIPELINES)}")
    if not isinstance(tables, Mapping):
        raise ConfigError(f"{file}: constants = {tables!r}; expected one table a constant")
    constants = _carried_over(table["base"], (*above, file)) if "base" in table else {}
    return _build(name, pipeline, tables, constants, file)


def _carried_over(base: Any, chain: tuple[Path, ...]) -> dict[str, Constant]:
    """The constants of another device, at confidence D: nobody has measured them on this one.

    ``chain`` are the files that build on it, the last one directly.
    """
    allowed = [name for name in device_names() if _FOLDER / f"{name}.toml" not in chain]
    if base not in allowed:
        raise ConfigError(f"{chain[-1]}: base = {base!r}; allowed, without a loop: {', '.join(allowed) or 'none'}")
    return {
        key: dataclasses.replace(
            constant, confidence="D", source=f"not measured, carried over from {base}: {constant.source}"
        )
        for key, constant in _parse(_FOLDER / f"{base}.toml", chain).constants.items()
    }


def _build(name: str, pipeline: str, tables: Mapping[str, Any], base: Mapping[str, Constant], file: Path) -> Device:
    for key in tables:
        if key not in UNITS:
            raise ConfigError(f"{file}: unknown constant {key!r}; allowed: {', '.join(UNITS)}")
    missing = [key for key in UNITS if key not in tables and key not in base]
    if missing:
        raise ConfigError(f"{file}: missing constant {', '.join(missing)}")
    constants = {
        key: parse_constant(key, tables[key], unit, file) if key in tables else base[key] for key, unit in UNITS.items()
    }
    values: dict[str, Any] = {key: constant.value for key, constant in constants.items()}
    for key, unit in UNITS.items():
        if unit in _WHOLE and not isinstance(values[key], int):
            raise ConfigError(f"{file}: constant {key}: value = {values[key]!r}; allowed: a whole number")
        if unit in _POSITIVE and constants[key].low <= 0:
            raise ConfigError(f"{file}: constant {key}: low = {constants[key].low:g}; allowed: above 0")
    if not 1 <= values["contexts"] <= MAX_CONTEXTS:
        raise ConfigError(f"{file}: constant contexts: value = {values['contexts']}; allowed: 1 to {MAX_CONTEXTS}")
    return Device(name, pipeline, MappingProxyType(constants), **values)
