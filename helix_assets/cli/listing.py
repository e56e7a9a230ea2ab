"""The table of commands and the help that lists them, without click, whose import takes longer than all the rest.

Nothing here imports a command or a library.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """Where a command is, as `module:attribute`, and its line in the help."""

    target: str
    help: str


COMMANDS = {
    "up": Entry("helix_assets.cli.up:up", "Sweep, then serve the Dagster UI on the loopback address."),
    "sweep": Entry("helix_assets.cli.sweep:sweep", "Take in what is new in the agents' logs."),
    "status": Entry("helix_assets.cli.status:status", "Show what the memory contains and what went wrong."),
    "sessions": Entry("helix_assets.cli.sessions:sessions", "List sessions."),
    "show": Entry("helix_assets.cli.show:show", "Show the events of one session."),
    "digest": Entry("helix_assets.cli.digest:digest", "Show the digest of one session."),
    "env": Entry("helix_assets.cli.env:env", "Print a closed session's variables for other programs."),
    "search": Entry("helix_assets.cli.search:search", "Find words in everything that was said and done."),
    "sql": Entry("helix_assets.cli.sql:sql", "Answer one SELECT over the memory's views."),
    "report": Entry("helix_assets.cli.report:report", "Report on usage, tools, files, tests, edits, patterns, weeks."),
    "hooks": Entry("helix_assets.cli.hooks:hooks", "Let agents report when a session closes, or stop that."),
    "hook": Entry("helix_assets.cli.hook:hook", "What an agent's hook runs: notes that a session changed."),
    "evict": Entry("helix_assets.cli.evict:evict", "Plan or apply the eviction of raw bytes."),
    "pin": Entry("helix_assets.cli.pin:pin", "Keep a session's raw bytes from eviction."),
    "unpin": Entry("helix_assets.cli.pin:unpin", "Let a session's raw bytes be evicted again."),
    "forget": Entry("helix_assets.cli.forget:forget", "Erase sessions everywhere, for good."),
    "rederive": Entry("helix_assets.cli.rederive:rederive", "Derive sessions again from their stored records."),
    "verify": Entry("helix_assets.cli.verify:verify", "Prove that catalog, files and digests agree."),
    "backup": Entry("helix_assets.cli.backup:backup", "Make a proven second copy of the memory."),
    "restore": Entry("helix_assets.cli.restore:restore", "Restore a copy of the memory."),
    "doctor": Entry("helix_assets.cli.doctor:doctor", "Say what is wrong with the set-up and what to do."),
    "export": Entry("helix_assets.cli.export:export", "Write the logical content in a canonical order."),
    "config": Entry("helix_assets.cli.config:config", "Show the settings in force and where each comes from."),
    "demo": Entry("helix_assets.cli.demo:demo", "Make a sample home with logs of all agents."),
    "service": Entry("helix_assets.cli.service:service", "Start helix at login, or stop doing so."),
    "redact": Entry("helix_assets.cli.redact:redact", "Try the redaction rules on a text."),
    "completion": Entry("helix_assets.cli.main:completion", "Print the shell's completion script."),
}

_ABOUT = """\
Usage: helix [OPTIONS] COMMAND [ARGS]...

  A bounded memory of your coding-agent sessions.

  Settings come from helix.toml and HELIX_* variables: see `helix config`.

Options:
  --version   Show the version and exit.
  -h, --help  Show this message and exit.

Commands:
"""


def help_text() -> str:
    """What `helix --help` says."""
    width = max(map(len, COMMANDS))
    return _ABOUT + "\n".join(f"  {name:<{width}}  {entry.help}" for name, entry in COMMANDS.items())
