"""The infrastructure bucket: tool calls that the agent makes for itself rather than for the task.

Belongs here: the share of calls in it. Not here: the list of tools, which comes from the agents (`agents.PLUMBING`) or
from the settings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase


def infra_overhead_share(tool_histogram: Mapping[str, int], infra_tools: Sequence[str]) -> float:
    """The share of tool calls in the infrastructure bucket, 0 to 1 with three digits; 0 without calls."""
    calls = sum(tool_histogram.values())
    infra = sum(count for tool, count in tool_histogram.items() if is_infra(tool, infra_tools))
    return round(infra / calls, 3) if calls else 0.0


def is_infra(tool: str, infra_tools: Sequence[str]) -> bool:
    """Whether a tool is in the bucket."""
    return any(fnmatchcase(tool, pattern) for pattern in infra_tools)
