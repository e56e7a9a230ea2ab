"""Measurements of helix_assets against bare limits and other tools; nothing in helix_assets imports this."""
