"""`helix export`: the logical content of the store, or the figures of its sessions, to a file or standard output."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from helix_assets.ask.export import SessionFigures, session_figures
from helix_assets.ask.export import export as write_export
from helix_assets.ask.reading import open_existing
from helix_assets.ask.withheld import note_on_texts
from helix_assets.cli.output import emit, handing_over, say, to_json
from helix_assets.model.errors import StopRun
from helix_assets.settings import load_settings
from helix_assets.store.durable import new_file

# Figures that have the same name in the digest. Costs are null if a model's price is unknown, and in digests that are
# older than prices.
_FIGURES = (
    "parent_uid", "started_at", "ended_at", "models", "cwd", "git_branch", "tokens", "tokens_main", "tokens_subagent",
    "tool_calls", "tool_calls_subagent", "tool_errors", "tool_denied", "tool_cancelled", "user_prompts", "interrupts",
    "assistant_messages", "assistant_messages_subagent", "compactions", "unparsed_lines", "repo", "domain", "task_ref",
    "title", "outcome", "cost_usd", "cost_usd_main", "cost_usd_subagent", "price_table",
)  # fmt: skip
_EDITS_SINCE = 4
"""The first version of digests that counts edits."""


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file (0600).")
@click.option("--sessions", "figures_only", is_flag=True, help="One JSON object of figures by session uid instead.")
@click.option("--json", "as_json", is_flag=True, help="With --out: describe what was written as JSON.")
def export(out: Path | None, figures_only: bool, as_json: bool) -> None:
    """Write the logical content as JSON Lines, the same bytes for the same logs, and its sha256."""
    if as_json and out is None and not figures_only:
        raise click.UsageError("--json describes a file that was written: name it with --out")
    with closing(open_existing(load_settings())) as store, _opened(out) as file:
        if figures_only:
            text = to_json({uid: _figures(found) for uid, found in session_figures(store).items()}).encode() + b"\n"
            file.write(text)
            data = {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
        else:
            done = write_export(store, file)
            data = done._asdict()
            if done.withheld:
                say(note_on_texts(done.withheld), err=True)
    if out is None:
        if not figures_only:
            say(f"sha256 {data['sha256']}", err=True)
        return
    emit({"out": out, **data}, as_json)
    if not as_json:
        say(f"sha256 {data['sha256']}  {out}")


def _figures(found: SessionFigures) -> dict[str, Any]:
    digest = found.digest
    return {
        "uid": digest.session_uid,
        "files": found.files,
        **{name: getattr(digest, name) for name in _FIGURES},
        "tools": digest.tool_histogram,
        "records": digest.record_count,
        "edits": digest.edits if digest.schema_version >= _EDITS_SINCE else None,
        "retries": digest.cost.retries,
        "errors": digest.kind_counts.get("error", 0),
        "tests": None if found.tests is None else [run._asdict() for run in found.tests],
    }


@contextmanager
def _opened(out: Path | None) -> Iterator[BinaryIO]:
    """Open the output: standard output, or a private file that appears only when it is complete."""
    if out is None:
        with handing_over() as file:
            yield file
        return
    if out.exists() and not out.is_file():
        with out.open("wb") as device:  # such as /dev/null
            yield device
        return
    fresh = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with new_file(fresh) as file:
            yield file
        fresh.replace(out)
    except OSError as exc:
        raise StopRun(f"{out} cannot be written: {exc.strerror}; name another file with --out") from exc
    finally:
        fresh.unlink(missing_ok=True)
