"""Loads pyarrow without pandas, which pyarrow would import to check whether a list is a pandas series.

That import takes longer than pyarrow's own, in every worker process and in every small sweep. Import this module before
pyarrow's first use. Later use of pandas with pyarrow works as usual.
"""

import sys
import threading
import types
import warnings

import pyarrow as pa


def _hide_pandas() -> None:
    """Show pyarrow a pandas that is too old to use. It looks only once, when it builds arrays."""
    too_old = types.ModuleType("pandas")
    too_old.__version__ = "0"  # type: ignore[attr-defined]
    sys.modules["pandas"] = too_old
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pa.array(())
    finally:
        del sys.modules["pandas"]


# Other threads must not see that module. The one that waits for the end of a parent imports nothing.
if "pandas" not in sys.modules and {thread.name for thread in threading.enumerate()} <= {"MainThread", "lifeline"}:
    _hide_pandas()

ARROW_TYPES = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string(), bytes: pa.string()}
"""How the types of a row's fields are stored."""
