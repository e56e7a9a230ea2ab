"""The frame of the command line: finding and running a command, exit codes, umask, completion.

A command has its own module, which is imported only when that command runs, so that `helix status` starts fast. A
command is a click.Command. It reports errors by raising HelixError.
"""

import importlib
import io
import json
import logging
import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from helix_assets import __version__
from helix_assets.cli.listing import COMMANDS, Entry, help_text
from helix_assets.model.errors import HelixError, NoAccessError, RetryLater, StoreError
from helix_assets.model.terminal import terminal_safe

EXIT_IO_ERROR = 74
EXIT_INTERRUPTED = 130
EXIT_NO_READER = 141
_COMPLETION_VARIABLE = "_HELIX_COMPLETE"


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is asked for, not to list it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        return resolve(COMMANDS[cmd_name])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as exc:
            near = get_close_matches(args[0], COMMANDS, n=1)
            raise click.UsageError(f"{exc.message} Did you mean '{near[0]}'?", ctx) if near else exc from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=entry.help) for name, entry in COMMANDS.items() if name.startswith(incomplete)
        ]

    def get_help(self, ctx: click.Context) -> str:
        return help_text()


def resolve(entry: Entry) -> click.Command:
    """Import the command that an entry names."""
    module, _, attribute = entry.target.partition(":")
    command = getattr(importlib.import_module(module), attribute)
    if not isinstance(command, click.Command):
        raise TypeError(f"{entry.target} is not a click command")
    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="helix")
def cli() -> None:
    """The command line as a whole. `listing` has its help."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document that contains the script.")
def completion(shell: str, as_json: bool) -> None:
    """Print the completion script of SHELL; evaluate it in the shell's start-up file."""
    from helix_assets.cli.output import hand_over

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"no completion for {shell}")
    script = kind(cli, {}, "helix", _COMPLETION_VARIABLE).source()
    text = json.dumps({"shell": shell, "script": script}, indent=2) if as_json else script
    hand_over(text.encode() + b"\n")


def main() -> None:
    """Run the command line and end the process with the exit code that fits."""
    os.umask(0o077)
    clean_warnings()
    sys.excepthook = _show_traceback
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.exit(run(sys.argv[1:]))


def _show_traceback(*error: Any) -> None:
    from traceback import format_exception

    from helix_assets.cli.output import say

    say("".join(format_exception(*error)), err=True, nl=False)


def clean_warnings() -> None:
    """Remove control sequences from log messages, which reach the terminal if nothing else handles them."""

    class Clean(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return terminal_safe(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(Clean())


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors are printed on stderr."""
    try:
        code = cli.main(list(arguments), "helix", _COMPLETION_VARIABLE, standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except HelixError as exc:
        _complain(str(exc))
        return exc.exit_code
    except (KeyboardInterrupt, click.Abort):
        # click turns an interrupt, and the end of input at a prompt, into Abort.
        _complain("interrupted")
        return EXIT_INTERRUPTED
    except click.ClickException as exc:
        from helix_assets.cli.output import say

        message = io.StringIO()
        exc.show(message)
        say(message.getvalue(), err=True, nl=False)
        return exc.exit_code
    except BrokenPipeError:
        # The reader has gone, as in `helix sessions | head`: keep Python from complaining when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_NO_READER
    except UnicodeEncodeError:
        from helix_assets.ask.query import is_utf8

        # Bytes of an argument that are not UTF-8 become lone surrogates in Python, which no database accepts.
        odd = [argument for argument in arguments if not argument.isascii() and not is_utf8(argument)]
        if not odd:
            raise
        _complain(f"{odd[0]!r} is not text in UTF-8")
        return click.UsageError.exit_code
    except OSError as exc:
        _complain(f"{exc.filename or 'a file'}: {exc.strerror or exc}")
        return EXIT_IO_ERROR
    except Exception:
        if (damage := _damage()) is None:
            raise
        _complain(f"the catalog is damaged: {damage}. `helix verify` says what; `helix restore` puts a copy back")
        return StoreError.exit_code


def _damage() -> str | None:
    """What is wrong with the catalog, if anything is: it may have led to any other error."""
    from helix_assets.ask.reading import damage_of_catalog
    from helix_assets.settings import load_settings

    try:
        return damage_of_catalog(load_settings())
    except (RetryLater, NoAccessError):  # nobody knows
        return None
    except HelixError as exc:
        return str(exc)


def _complain(message: str) -> None:
    from helix_assets.cli.output import say

    say(f"helix: {_redacted(message)}", err=True)


def _redacted(message: str) -> str:
    """A message, redacted by the rules in force: it may name a path or a session."""
    from helix_assets.redaction import Redactor
    from helix_assets.redaction.encoded import name_again
    from helix_assets.settings import load_settings
    from helix_assets.store.store import rules_in_force

    try:
        rules = rules_in_force(load_settings())
    except HelixError:  # the message may be about the settings
        rules = Redactor(os.urandom(32))
    return name_again(rules, message)
