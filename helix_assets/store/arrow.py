"""Loads pyarrow without pandas, which it would import to see whether a list is one of pandas' series.

That import takes longer than pyarrow's own, in every worker process and in every small sweep. Import this before
pyarrow's first use; whoever uses pandas with pyarrow later finds both as usual.
"""

import sys
import threading
import types
import warnings

import pyarrow as pa


def _look_for_pandas_in_vain() -> None:
    """Let pyarrow meet a pandas too old to use: it looks only once when it builds arrays."""
    too_old = types.ModuleType("pandas")
    too_old.__version__ = "0"  # type: ignore[attr-defined]
    sys.modules["pandas"] = too_old
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pa.array(())
    finally:
        del sys.modules["pandas"]


# Other threads must not meet that module.
if "pandas" not in sys.modules and threading.active_count() == 1:
    _look_for_pandas_in_vain()

ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), bytes: pa.string()}
"""How the types of a row's fields are stored."""
