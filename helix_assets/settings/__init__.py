"""What a person can set, in helix.toml and in the environment.

`model` lists every setting once, `load` reads them, `values` checks what a value looks like, `folders` knows where
folders are on a machine, and `toml_file` finds the line that an error is about.
Not here: anything that opens the store or imports a big library.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from helix_assets.settings.load import load_settings
    from helix_assets.settings.model import RetentionSettings, Settings

__all__ = ["RetentionSettings", "Settings", "load_settings"]


def __getattr__(name: str) -> object:
    """Loaded when asked for: `rules_stamp` is read by a program that must answer in milliseconds."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from helix_assets.settings import load, model

    return getattr(load if name == "load_settings" else model, name)
