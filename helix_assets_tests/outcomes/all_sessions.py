"""Every hand-made session. Not here: how they are written (`writers`) or judged (the product)."""

from helix_assets_tests.outcomes.claude_sessions import CLAUDE
from helix_assets_tests.outcomes.codex_sessions import CODEX
from helix_assets_tests.outcomes.grok_sessions import GROK

HAND_MADE = (*CLAUDE, *CODEX, *GROK)
