"""Tests; the tree mirrors helix_assets."""
