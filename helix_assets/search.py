"""Door: programs import `Filters` from here. It is in `ask.search`."""

from helix_assets.ask.search import Filters

__all__ = ["Filters"]
