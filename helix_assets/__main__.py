"""`python -m helix_assets` and the console script `helix`.

A hook is answered here, before the command line and its libraries are loaded: an agent waits for it. So is `--help`,
which would spend three quarters of its time on loading them.
"""

import gc
import os
import sys


def main() -> None:
    """Run one command and end the process with its exit code."""
    name, *rest = sys.argv[1:] or [""]
    if name == "hook" and (len(rest) == 1 or (len(rest) == 2 and rest[1].lstrip().startswith("{"))):
        from helix_assets.hooks.hook import main as hook

        if rest[0] not in ("-h", "--help"):
            sys.exit(hook([rest[0], _inbox(), *rest[1:]]))
    if sys.argv[1:] in (["--help"], ["-h"]):
        from helix_assets.cli.listing import help_text

        sys.stdout.write(help_text() + "\n")
        return
    # What is imported stays: looking for garbage among it, at Python's own pace, takes a tenth of a short command.
    gc.set_threshold(20_000, 20, 20)
    from helix_assets.cli.main import main as run

    run()


def _inbox() -> str:
    """Where notes go; nowhere if the settings are wrong, for the agent has no use for a complaint."""
    named = os.environ.get("HELIX_DATA_DIR")
    if named and named.startswith("/"):
        return os.path.join(named, "inbox")
    try:
        from helix_assets.settings import load_settings

        return str(load_settings().data_dir.absolute() / "inbox")
    except Exception:  # noqa: BLE001 - as above
        return os.devnull


if __name__ == "__main__":
    main()
