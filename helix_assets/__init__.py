"""helix_assets: a bounded memory of coding-agent sessions, seen through Dagster.

Nothing is imported here: `helix status` and the hooks must start in milliseconds. `Memory` is, when it is asked for.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from helix_assets.ask.memory import Memory

__all__ = ["Memory", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "Memory":
        from helix_assets.ask.memory import Memory

        return Memory
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
