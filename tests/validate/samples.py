"""Rows for the tests, in both layouts."""

from __future__ import annotations

from hexenv.validate.rows import MODEL_COLUMNS, OPERATOR_COLUMNS, Row

OPERATOR_HEADER = ",".join(OPERATOR_COLUMNS)
MODEL_HEADER = ",".join(MODEL_COLUMNS)


def operator_row(value: float = 1.0, unit: str = "us", **fields: str) -> Row:
    texts = dict.fromkeys(OPERATOR_COLUMNS, "") | {"arch": "v79", "op": "MUL_MAT", "dtype_a": "q4_0"} | fields
    return Row("here", 2, texts | {"value": str(value), "unit": unit}, value)


def matmul_row(m: int, n: int, k: int, value: float = 1.0) -> Row:
    return operator_row(value, m=str(m), n=str(n), k=str(k))


def model_row(test: str, value: float = 1.0, **fields: str) -> Row:
    texts = dict.fromkeys(MODEL_COLUMNS, "") | {"arch": "v79", "model": "Qwen3-1.7B", "quant": "Q4_0", "test": test}
    return Row("here", 2, texts | fields | {"value": str(value), "unit": "t/s"}, value)
