"""Tests of helix_assets.cli."""
