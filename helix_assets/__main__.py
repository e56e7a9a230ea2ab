"""`python -m helix_assets` does what the console script `helix` does."""

from helix_assets.cli.main import main

if __name__ == "__main__":
    main()
