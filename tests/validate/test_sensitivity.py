from __future__ import annotations

from collections.abc import Callable

import pytest

from hexenv.device import Device, load_device
from hexenv.kernels import fastest_us
from hexenv.validate.pair import PAIR, makespan_us
from hexenv.validate.sensitivity import MAIN_PREDICTIONS, Effect, effects

CHEAP = ("GEMV q4_0 2048x1x2048", "RMS norm 512x2048", "softmax 512x2048")


@pytest.fixture(scope="module")
def found() -> dict[tuple[str, str], Effect]:
    predictions: dict[str, Callable[[Device], float]] = {name: MAIN_PREDICTIONS[name] for name in CHEAP}
    return {(effect.constant, effect.prediction): effect for effect in effects(load_device("v79"), predictions)}


def test_more_bandwidth_is_faster_and_more_work_is_slower(found: dict[tuple[str, str], Effect]) -> None:
    for name in CHEAP:
        assert found["ddr_bytes_per_us", name].at_low > 0.0 >= found["ddr_bytes_per_us", name].at_high
        assert found["kernel_fixed_us", name].at_low < 0.0 < found["kernel_fixed_us", name].at_high
    assert found["exp_packets", "softmax 512x2048"].at_high > 0.0


def test_what_an_operator_does_not_use_does_not_move_it(found: dict[tuple[str, str], Effect]) -> None:
    for constant in ("decode_gap_us", "softmax_element_ns", "gaussian3x3_packets", "beta"):
        assert found[constant, "GEMV q4_0 2048x1x2048"].size == 0.0


def test_constants_without_a_range_are_left_out_and_the_largest_come_first(
    found: dict[tuple[str, str], Effect],
) -> None:
    assert "contexts" not in {constant for constant, _ in found}
    sizes = [effect.size for effect in found.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_the_fused_pair_takes_between_its_longer_operator_and_both() -> None:
    v79 = load_device("v79")
    alone = [fastest_us(operator, v79) for operator in PAIR]
    assert max(alone) < makespan_us(v79) < 1.3 * sum(alone)
    assert makespan_us(v79.with_values(entry_dsp_us=10.0)) > makespan_us(v79)
