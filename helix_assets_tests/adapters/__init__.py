"""Tests of helix_assets.adapters."""
