"""Sample homes: invented logs of each agent, and the true figures of what they contain.

For people without logs of their own, for tests and for benchmarks.
Not here: reading logs, real or invented.
"""

from helix_assets.demo.growth import append
from helix_assets.demo.home import LAST_DAY, make_home
from helix_assets.demo.truth import PlantedSecret, SessionTruth, Truth

__all__ = ["LAST_DAY", "PlantedSecret", "SessionTruth", "Truth", "append", "make_home"]
