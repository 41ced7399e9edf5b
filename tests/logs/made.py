"""Logs that the model itself would have written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hexenv.calibrate.stages import SETUP, STAGES
from hexenv.device import Device
from hexenv.kernels import Elementwise, FlashAttention, MatMul, Operator, RmsNorm, Version
from hexenv.validate.backend import GENERATIONS, cost_on, duration_us, version

MHZ = 2112.0
STATE = GENERATIONS["overlapped"]


def text_of(shape: Sequence[int]) -> str:
    return ":".join(map(str, shape))


def fields(operator: Operator, index: int) -> tuple[str, list[tuple[str, str, str]], str]:
    """ggml's name, operands (name, shape, type; the output last) and kernel of an operator."""
    engine = "hmx" if version(operator, STATE) is Version.HMX else "hvx"
    match operator:
        case MatMul(weight=weight, m=m, n=n, k=k):
            operands = [
                (f"blk.{index}.weight", text_of((k, m)), weight),
                (f"x-{index}", text_of((k, n)), "f32"),
                (f"y-{index}", text_of((m, n)), "f32"),
            ]
            return "MUL_MAT", operands, f"{engine}-tiled vtcm 8000000"
        case FlashAttention(queries=q, kv=kv, q_heads=heads, kv_heads=groups, head_dim=d):
            cache = text_of((d, kv, groups, 1))
            operands = [
                (f"q-{index}", text_of((d, q, heads, 1)), "f32"),
                (f"cache_k_l{index} (view)", cache, "f16"),
                (f"cache_v_l{index} (view)", cache, "f16"),
                ("mask", text_of((kv, q)), "f16"),
                (f"a-{index}", text_of((d, heads, q, 1)), "f32"),
            ]
            return "FLASH_ATTN_EXT", operands, f"{'hmx-pipe' if engine == 'hmx' else 'hvx'} vtcm 8000000"
        case RmsNorm(rows=rows, columns=columns):
            whole = text_of((columns, rows))
            operands = [
                (f"h-{index}", whole, "f32"),
                ("norm.weight", text_of((columns, 1)), "f32"),
                (f"n-{index}", whole, "f32"),
            ]
            return "RMS_NORM+MUL", operands, "row-block vtcm 100000"
        case Elementwise(kind=kind, elements=elements):
            whole = text_of((elements, 1))
            operands = [(f"{name}-{index}", whole, "f32") for name in ("u", "v", "w")]
            return kind.upper(), operands, "----"
    raise AssertionError(operator)


def joined(parts: Iterable[str]) -> str:
    *inputs, output = parts
    return f"{' x '.join(inputs)} -> {output}"


def line(operator: Operator, index: int, us: float, start: int = 0) -> str:
    """A message of layout 3 of an operator that took ``us``."""
    name, operands, kernel = fields(operator, index)
    usec = max(1, round(us))
    cycles = round(us * MHZ)
    names, dims, types = (joined(column) for column in zip(*operands, strict=True))
    return (
        f"ggml-hex: HTP0 profile-op {name}|{names}|{dims}|{types}|{types}|{kernel}|"
        f"usec {usec} cycles {cycles} start {start % (1 << 32)} mhz {cycles / usec:.1f}\n"
    )


def rounds(operators: Sequence[Operator], device: Device, count: int, noise: float, seed: int) -> Iterator[str]:
    """``count`` batches of the operators, each time with log-normal noise of sigma ``noise``."""
    draw = np.random.default_rng(seed)
    for _ in range(count):
        times = [duration_us(op, device, STATE) * float(draw.lognormal(0.0, noise)) for op in operators]
        total = round(sum(times))
        yield (
            f"ggml-hex: HTP0 profile-op OPBATCH|----|n-ops {len(operators)}|----|----|----|"
            f"usec {total} cycles {total} start 7 mhz 1.0\n"
        )
        for index, (op, us) in enumerate(zip(operators, times, strict=True)):
            yield line(op, index, us)


def traced(operators: Sequence[Operator], device: Device, start: int = (1 << 32) - 100_000) -> str:
    """One batch with the events of its matmuls' stages, each shared by all contexts (HMX: its own thread)."""
    ops, events, now = [], [], start
    for index, op in enumerate(operators):
        us = duration_us(op, device, STATE)
        engine = version(op, STATE)
        ops.append(line(op, index, us, now))
        for name, stage in STAGES.get((op.family, engine), {}).items():
            threads = [10] if name == "HMX_COMP" else [0] if name == SETUP else range(device.contexts)
            each = stage(cost_on(op, device, engine), device) / len(threads)
            for thread in threads:
                for end, at in (("start", now), ("stop", now + round(each * MHZ))):
                    event = f"{name.split(' + ')[0]}: thread {thread} info 0 {end} {at % (1 << 32)}"
                    events.append(f"ggml-hex: HTP0 trace-evt {event}\n")
        now += round((us + 2.0) * MHZ)
    timing = f"usec 1 cycles 1 start {start} mhz 1.0"
    head = f"ggml-hex: HTP0 profile-op OPBATCH|----|n-ops {len(ops)}|----|----|----|{timing}\n"
    return head + "".join(ops + events)


SESSION = "ggml-hex: HTP0 hwinfo: threads 6, hvx 6, hmx 1, vtcm 8 MB\n"


def log_text(operators: Sequence[Operator], device: Device, count: int = 5, noise: float = 0.01, seed: int = 0) -> str:
    """A whole log."""
    return SESSION + "".join(rounds(operators, device, count, noise, seed))
