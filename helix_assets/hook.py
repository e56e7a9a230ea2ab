"""Door: hooks that were installed before name this file. What they run is `hooks/hook.py`; it ends with 0, always."""

import os
import sys

if __name__ == "__main__":
    try:
        sys.dont_write_bytecode = True
        sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "hooks"))
        from hook import main  # type: ignore[import-not-found]

        main(sys.argv[1:])
    except BaseException:  # noqa: BLE001 - a hook that fails must not show
        pass
    os._exit(0)
