"""Tests of helix_assets.agents."""
