"""Makes sample homes: invented Claude, Codex and Grok logs, with their true figures.

For people without logs of their own, for the tests and for the benchmarks. Nothing here reads real logs.
"""

from helix_assets.demo.growth import append
from helix_assets.demo.home import LAST_DAY, make_home
from helix_assets.demo.truth import PlantedSecret, SessionTruth, Truth

__all__ = ["LAST_DAY", "PlantedSecret", "SessionTruth", "Truth", "append", "make_home"]
