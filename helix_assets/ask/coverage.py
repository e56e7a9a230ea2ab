"""The versions of the code that decide which sessions are covered (`store.catalog.conditions`)."""

from __future__ import annotations

from helix_assets.agents import ADAPTERS
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.store.catalog.conditions import Versions


def versions() -> Versions:
    """The versions of the code that runs."""
    return Versions({flavor: adapter.version for flavor, adapter in ADAPTERS.items()}, DIGEST_VERSION)
