"""`helix doctor`: what is wrong with the set-up and what to do. `prove.doctor` makes the checks."""

from dataclasses import asdict

import click

from helix_assets.cli.output import Column, Table, emit, say
from helix_assets.prove.doctor import examine
from helix_assets.sweep.sweep import utc_now

_EXIT_SOMETHING_TO_DO = 1
_MARKS = {"fine": "ok", "note": "-", "wrong": "!"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(as_json: bool) -> int:
    """Say what is wrong with the set-up and what to do; exit code 1 if something needs doing."""
    found = examine(utc_now())
    wrong = [finding for finding in found if finding.state == "wrong"]
    rows = [[_MARKS[finding.state], finding.check, finding.what, finding.do] for finding in found]
    table = Table([Column(""), Column("check"), Column("found"), Column("do")], rows)
    emit({"is_fine": not wrong, "findings": [asdict(finding) for finding in found]}, as_json, table)
    if not as_json:
        say(f"{len(wrong)} things need doing." if wrong else "All is well; `helix verify` proves every byte.")
    return _EXIT_SOMETHING_TO_DO if wrong else 0
