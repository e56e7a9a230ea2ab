"""`helix verify`: the proof of the store, or the list of what is wrong with it."""

from contextlib import closing
from dataclasses import asdict

import click

from helix_assets.ask.reading import open_existing
from helix_assets.cli.output import Column, Table, emit, say
from helix_assets.model.errors import StoreError
from helix_assets.prove.answer import Violation
from helix_assets.prove.verify import verify as run_verify
from helix_assets.redaction.encoded import shown_by
from helix_assets.settings import load_settings
from helix_assets.store.store import Store, rules_in_force

_EXIT_VIOLATED = 1


@click.command()
@click.option("--secrets", is_flag=True, help="Search every stored byte for secrets and canaries, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify(secrets: bool, as_json: bool) -> int:
    """Prove that catalog, files and digests agree; exit code 1 if they do not."""
    settings = load_settings()
    try:
        with closing(open_existing(settings)) as store:
            found = run_verify(store)
            found += _survivors(store) if secrets else []
    except StoreError as exc:  # not even the catalog opens
        found = [Violation("store_opens", str(exc))]
    rules = rules_in_force(settings)
    found = [Violation(**shown_by(rules, violation)) for violation in found]
    data = {"is_sound": not found, "violations": [asdict(violation) for violation in found]}
    emit(data, as_json, _listing(found) if found else None)
    if not as_json:
        say(f"{len(found)} violations." if found else "The store is sound.")
    return _EXIT_VIOLATED if found else 0


def _survivors(store: Store) -> list[Violation]:
    from helix_assets.prove.verify_secrets import surviving_secrets

    try:
        return [Violation("secret_survives", *survivor) for survivor in surviving_secrets(store)]
    except StoreError as exc:
        return [Violation("secrets_searched", str(exc))]


def _listing(found: list[Violation]) -> Table:
    rows = [[v.check.replace("_", " "), v.session_uid or "", v.what, v.path or ""] for v in found]
    return Table([Column("check"), Column("session"), Column("found"), Column("file")], rows)
