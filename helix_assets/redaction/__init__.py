"""Redaction: no secret passes from a log into anything that we store, index, log or show.

`Redactor` replaces the secrets in text or raw JSONL lines by marks `[redacted:<kind>:<tag>]`. One scan with one pattern
(the trigger, a union of all rules) finds the lines worth a look. These are read as a person would read them
(`view.py`), searched (`finder.py`, by `rules.py`, `assignment.py`, `blocks.py`, `tables.py`) and judged (`judge.py`).
Text that is written as numbers (`numbers.py`) or in several records (`joined.py`) is put together first.
Pure: rules are a module, the store's key is passed in.
"""

from helix_assets.redaction.engine import RuleError
from helix_assets.redaction.redactor import Redacted, RedactedLines, Redactor, strip_tags
from helix_assets.redaction.rules import Rule

__all__ = ["Redacted", "RedactedLines", "Redactor", "Rule", "RuleError", "strip_tags"]
