"""What a person can set, from helix.toml and the environment.

`model` lists every setting once, `load` reads them, `kinds` says what a value may look like, `places` knows where
things lie on a machine and `toml_file` finds the line to blame. Nothing here opens the store or imports a big library.
"""

from helix_assets.settings.load import load_settings
from helix_assets.settings.model import RetentionSettings, Settings

__all__ = ["RetentionSettings", "Settings", "load_settings"]
