"""Door: packages that bring an agent along import the modules of `model` by these names."""

import sys

from helix_assets.model import errors
from helix_assets.model import event as schema
from helix_assets.model import time as moments

for _name, _module in {"errors": errors, "moments": moments, "schema": schema}.items():
    sys.modules[f"{__name__}.{_name}"] = _module
