from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.validate import fit
from hexenv.validate.fit import Fit
from hexenv.validate.rules import Case, classify
from tests.validate.samples import matmul_row

SHAPES = [(2048, 1, 2048), (1024, 1, 2048), (6144, 1, 2048), (2048, 1, 6144), (512, 1, 512), (256, 1, 4096)]
GEMV = Fit("GEMV", "v79", ("kernel_fixed_us", "ddr_bytes_per_us"), ("gemv",))


def made_by(device: Device) -> list[Case]:
    """Rows that the model itself measured on ``device``."""
    cases, _ = classify([matmul_row(*shape) for shape in SHAPES])
    return [
        dataclasses.replace(case, row=dataclasses.replace(case.row, value=case.predicted(device))) for case in cases
    ]


@settings(max_examples=6, deadline=None)
@given(st.floats(2.5, 9.5), st.floats(56_000, 64_000))
def test_recovers_constants_from_rows_that_the_model_made(fixed: float, ddr: float) -> None:
    v79 = load_device("v79")
    truth = v79.with_values(kernel_fixed_us=fixed, ddr_bytes_per_us=ddr, hvx_unpack_q4_0_us=0.005)
    quiet = v79.with_values(hvx_unpack_q4_0_us=0.005)  # else HVX hides the bandwidth
    found = fit.solve(made_by(truth), quiet, GEMV.constants)
    assert found["kernel_fixed_us"] == pytest.approx(fixed, rel=0.02)
    assert found["ddr_bytes_per_us"] == pytest.approx(ddr, rel=0.02)


def test_a_held_out_group_is_never_trained_on() -> None:
    cases, _ = classify([matmul_row(*shape) for shape in SHAPES for _ in range(2)])
    seen = []
    for held_out, train in fit.splits(cases, GEMV):
        assert {case.subject for case in held_out}.isdisjoint(case.subject for case in train)
        assert len(held_out) + len(train) == len(cases)
        seen += held_out
    assert sorted(map(id, seen)) == sorted(map(id, cases))


def test_out_of_sample_is_worse_where_one_group_is_off() -> None:
    cases = made_by(load_device("v79"))
    odd = dataclasses.replace(cases[0], row=dataclasses.replace(cases[0].row, value=2 * cases[0].row.value))
    found = fit.run(GEMV, [odd, *cases[1:]])
    assert found is not None
    assert abs(found.out_of_sample[0]) > abs(found.in_sample[0])


def test_too_few_rows_are_not_fitted() -> None:
    assert fit.run(GEMV, made_by(load_device("v79"))[:1]) is None


def test_a_constant_without_a_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="contexts cannot be fitted: low = high = 6"):
        fit.solve(made_by(load_device("v79")), load_device("v79"), ("contexts",))


def test_fits_name_constants_and_never_use_rows_under_sustained_load() -> None:
    for one in fit.FITS:
        assert set(one.constants) <= set(load_device(one.device).constants)
    sustained = [dataclasses.replace(case, sustained=True) for case in made_by(load_device("v79"))]
    assert GEMV.cases(sustained) == []
