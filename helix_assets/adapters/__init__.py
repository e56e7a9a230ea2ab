"""Door: packages that bring an agent along were written against these names. They are in `agents` and `model` now."""

import sys

from helix_assets import model
from helix_assets.agents import jsonl, loose, spec, walk
from helix_assets.model import errors, event, time

_BEFORE = {
    "adapters.base": spec,
    "adapters.jsonl": jsonl,
    "adapters.loose": loose,
    "adapters.walk": walk,
    "core": model,
    "core.errors": errors,
    "core.moments": time,
    "core.schema": event,
}
for _name, _module in _BEFORE.items():
    sys.modules[f"helix_assets.{_name}"] = _module
