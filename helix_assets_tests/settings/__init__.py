"""Tests of helix_assets.settings."""
