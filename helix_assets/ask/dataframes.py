"""Rows as pandas DataFrames, for notebooks and scripts.

Belongs here: which pandas type a column gets. Only this module imports pandas, which takes half a second, so it is
itself imported only when somebody asks for a DataFrame. Not here: which rows (`ask.memory`, `ask.reports`).
"""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

# Pandas' own types show a number that is unknown as a float's NaN, and make floats of whole numbers next to it.
_TYPES = {
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The table as a DataFrame: times know that they are UTC, and unknown numbers are NA. Days are Python dates."""
    columns = [_typed(column) for column in table.columns]
    frame: pd.DataFrame = pa.table(columns, names=table.column_names).to_pandas(types_mapper=_TYPES.get)
    return frame


def _typed(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", tz="UTC"))
    if pa.types.is_decimal(column.type):  # what DuckDB's sum of whole numbers is
        return column.cast(pa.float64() if column.type.scale else pa.int64())
    return column
