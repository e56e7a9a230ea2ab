"""Redaction: no secret passes from a log into anything that is stored, indexed, logged or shown.

`Redactor` replaces secrets in a text or in raw log lines by marks `[redacted:<kind>:<tag>]`. One pattern, the trigger,
finds the lines worth a look; `view` reads these as a person would, `finder` searches them by `rules`, `assignment`,
`blocks` and `tables`, and `judge` decides. Texts written as numbers (`numbers`) or in pieces (`joined`) are
joined first. Pure: rules are data in a module, the store's key is handed in.
Not here: what is redacted again when rules change (`sweep.rescan`).
"""

from helix_assets.redaction.engine import RuleError
from helix_assets.redaction.redactor import Redacted, RedactedLines, Redactor, strip_tags
from helix_assets.redaction.rules import Rule

__all__ = ["Redacted", "RedactedLines", "Redactor", "Rule", "RuleError", "strip_tags"]
