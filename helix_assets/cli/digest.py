"""`helix digest`: what is kept of a session for good."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from helix_assets.ask.reading import matching_uids, open_existing, open_session
from helix_assets.cli.output import Column, Table, emit, human_count, say
from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.errors import NotFoundError
from helix_assets.settings import load_settings
from helix_assets.store.store import Store

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest, FileTouched, Tokens

_EXIT_AMBIGUOUS = 2


@click.command()
@click.argument("uid")
@click.option("--json", "as_json", is_flag=True, help="Print the digest as JSON.")
def digest(uid: str, as_json: bool) -> None:
    """Show the digest of the session UID (the first characters of its uid or native id will do)."""
    with (
        closing(open_existing(load_settings())) as store,
        open_session(store, pick_session(store, uid), with_texts=False) as session,
    ):
        found, text = session.digest, session.digest_text
        if found is None or text is None:
            why = session.row.failure or "the next sweep makes it"
            raise NotFoundError(f"{session.row.session_uid} has no digest yet: {why}")
    emit(parsed_digest(text), as_json, digest_tables(found))


def pick_session(store: Store, text: str) -> str:
    """The one session that `text` means. If it may mean several, list them and end with exit code 2."""
    found = matching_uids(store, text)
    if not found:
        raise NotFoundError(f"no session begins with {text!r}; `helix sessions` lists them")
    if len(found) > 1:
        say(f"{text!r} may mean any of these sessions:", err=True)
        for uid in store.shown(found):
            say(f"  {uid}", err=True)
        raise click.exceptions.Exit(_EXIT_AMBIGUOUS)
    return found[0]


def _lines(file: FileTouched) -> str:
    added, removed = ("?" if lines is None else lines for lines in (file.lines_added, file.lines_removed))
    return f"+{added} -{removed}"


def digest_tables(found: Digest) -> list[Table]:
    """A digest as a person reads it: the session, its figures, its errors, its files."""
    tables = [Table([Column(found.session_uid), Column("")], [*_facts(found), *_figures(found)])]
    tools = sorted(found.tool_histogram.items(), key=lambda item: (-item[1], item[0]))
    if tools:
        tables.append(_counted("tool", "calls", tools))
    if found.error_snippets:
        rows = [[human_count(e.count), e.tool or "", e.sample] for e in found.error_snippets]
        tables.append(Table([Column("times", "right"), Column("tool"), Column("error")], rows))
    if found.files:
        rows = [[human_count(f.edits), _lines(f), f.path] for f in found.files]
        tables.append(Table([Column("edits", "right"), Column("lines", "right"), Column("file")], rows))
    return tables


def _facts(found: Digest) -> list[list[str]]:
    names = (
        "title",
        "repo",
        "domain",
        "task_ref",
        "cwd",
        "git_branch",
        "parent_uid",
        "model",
        "started_at",
        "ended_at",
    )
    rows = [[name.replace("_", " "), str(found[name])] for name in names if found[name]]
    verdict = f"{found.outcome} ({found.outcome_reason.replace('_', ' ')}; {found.outcome_confidence} confidence)"
    texts = [[name.replace("_", " "), found[name]] for name in ("first_prompt", "last_assistant") if found[name]]
    return [*rows, ["outcome", verdict], *texts]


def _figures(found: Digest) -> list[list[str]]:
    names = ("user_prompts", "assistant_messages", "tool_calls", "tool_errors", "interrupts", "interventions",
             "compactions", "files_touched", "event_count", "record_count", "unparsed_lines")  # fmt: skip
    rows = [[name.replace("_", " "), human_count(found[name])] for name in names]
    for name, tokens in (("tokens main", found.tokens_main), ("tokens subagent", found.tokens_subagent)):
        if any(asdict(tokens).values()):
            rows.append([name, _tokens(tokens)])
    return [
        *rows,
        ["time", f"{found.cost.wall_clock_s} s, active {found.cost.active_s} s"],
        ["retries", str(found.cost.retries)],
    ]


def _tokens(tokens: Tokens) -> str:
    return ", ".join(
        f"{human_count(count)} {kind.replace('_', ' ')}" for kind, count in asdict(tokens).items() if count is not None
    )


def _counted(what: str, number: str, items: list[tuple[str, int]]) -> Table:
    return Table([Column(what), Column(number, "right")], [[name, human_count(count)] for name, count in items])
