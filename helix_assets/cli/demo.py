"""`helix demo`: writes a sample home, which `helix_assets.demo` makes."""

from datetime import datetime
from pathlib import Path

import click

from helix_assets.cli.output import Column, Table, emit, human_count, human_size, say
from helix_assets.settings.folders import agent_variables

_SESSIONS = 60


@click.command()
@click.argument("out", type=click.Path(file_okay=False, path_type=Path))
@click.option("--seed", default=1, show_default=True, help="The same seed and last day give the same bytes.")
@click.option("--sessions", type=click.IntRange(1), help="How many sessions.  [default: 60]")
@click.option(
    "--mb", type=click.FloatRange(0, min_open=True), help="How many megabytes of logs, instead of --sessions."
)
@click.option("--until", type=click.DateTime(["%Y-%m-%d"]), metavar="DAY", help="The last day.  [default: 2026-01-31]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def demo(  # noqa: PLR0913, PLR0917 - click passes an argument per option
    out: Path, seed: int, sessions: int | None, mb: float | None, until: datetime | None, as_json: bool
) -> None:
    """Make a sample home in the folder OUT, with logs of all agents; OUT/truth.json contains its true figures."""
    from helix_assets.demo import LAST_DAY, make_home

    if sessions is not None and mb is not None:
        raise click.UsageError("--sessions and --mb exclude each other: give one of them")
    out = out.absolute()
    last = until.date() if until else LAST_DAY
    truth = make_home(out, seed=seed, sessions=sessions or _SESSIONS, megabytes=mb, today=last)
    variables = {variable: str(out / agent) for agent, variable in agent_variables().items()}
    answer = {
        "home": out,
        "seed": seed,
        "until": last,
        "sessions": len(truth.sessions),
        "bytes": truth.jsonl_bytes,
        **variables,
    }
    emit(answer, as_json, _summary(len(truth.sessions), truth.jsonl_bytes))
    if not as_json:
        say("\nTo read it, set these before a command:")
        for variable, folder in variables.items():
            say(f"  {variable}={folder}")


def _summary(sessions: int, size_bytes: int) -> Table:
    columns = [Column("sessions", "right"), Column("size", "right")]
    return Table(columns, [[human_count(sessions), human_size(size_bytes)]])
