"""Door: `python -m helix_assets.digest_lookup UID`, as other programs call it. It is `ask.digest_lookup`."""

import sys

from helix_assets.ask.digest_lookup import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
