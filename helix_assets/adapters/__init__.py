"""The one visible list of agents. A new agent is one module here and one line below."""

from __future__ import annotations

from collections.abc import Mapping

from helix_assets.adapters.base import Adapter
from helix_assets.adapters.claude import ClaudeAdapter
from helix_assets.adapters.codex import CodexAdapter
from helix_assets.adapters.grok import GrokAdapter

ADAPTERS: Mapping[str, Adapter] = {
    adapter.flavor: adapter for adapter in (ClaudeAdapter(), CodexAdapter(), GrokAdapter())
}
