"""What a person can set, in helix.toml and in the environment.

`model` lists every setting once, `load` reads them, `values` checks what a value looks like, `folders` knows where
folders are on a machine, and `toml_file` finds the line that an error is about.
Not here: anything that opens the store or imports a big library.
"""

from helix_assets.settings.load import load_settings
from helix_assets.settings.model import RetentionSettings, Settings

__all__ = ["RetentionSettings", "Settings", "load_settings"]
