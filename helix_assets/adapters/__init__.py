"""Door: packages that bring an agent along import the modules of `agents` by these names."""

import sys

from helix_assets.agents import jsonl, loose, walk
from helix_assets.agents import spec as base

for _name, _module in {"base": base, "jsonl": jsonl, "loose": loose, "walk": walk}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
