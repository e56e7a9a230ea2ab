"""`helix restore`: restores a copy of the memory. `keep.restore` does the work."""

from collections.abc import Sequence

import click

from helix_assets.cli.output import emit, human_count, say
from helix_assets.keep.restore import Restored, choose_copy
from helix_assets.keep.restore import restore as run_restore
from helix_assets.model.errors import StoreError
from helix_assets.prove.verify import is_sound
from helix_assets.redaction.encoded import shown_by
from helix_assets.settings import load_settings
from helix_assets.store.store import rules_in_force
from helix_assets.sweep.sweep import utc_now


@click.command()
@click.option("--from", "generation", help="The copy, by name or number; the newest without it.")
@click.option("--yes", is_flag=True, help="Restore even if the current store is sound.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def restore(generation: str | None, yes: bool, as_json: bool) -> None:
    """Restore a copy of catalog, key and facts. What is there now is moved to another folder.

    That folder stays as it is, also when redaction rules change, until the next restore or `helix forget` deletes it.
    """
    settings = load_settings()
    copy = choose_copy(settings, generation)
    if not yes and is_sound(settings):
        raise StoreError(
            f"the store in {settings.data_dir} is sound: nothing needs to be restored. "
            f"--yes replaces it by the copy of {copy.made_at} all the same"
        )
    done = run_restore(settings, copy, utc_now())
    rules = rules_in_force(settings)
    emit(_as_data(done) | shown_by(rules, {"lost": done.lost, "reread": done.reread, "gone": done.gone}), as_json)
    if not as_json:
        _print_result(done, shown_by(rules, done.gone))


def _as_data(done: Restored) -> dict[str, object]:
    return {
        "copy": done.copy,
        "aside": done.before_restore,
        "files_set_aside": done.files_moved,
        "newer": done.newer,
    }


def _print_result(done: Restored, gone: Sequence[str]) -> None:
    say(f"The copy of {done.copy.made_at} is restored, with {human_count(done.copy.digests)} digests.")
    if done.lost:
        say(
            f"{human_count(len(done.lost))} sessions have no raw bytes any more; their digests stay. "
            f"The next sweep reads {human_count(len(done.reread))} of them again."
        )
    for uid in gone:
        say(f"  lost for good, except for the digest: {uid}")
    if done.newer:
        say(
            f"{human_count(done.newer)} sessions are newer than the copy: the next sweep takes them in again "
            "where their logs still exist."
        )
    if done.before_restore is None:
        say("What was there before is deleted, because it contained sessions that are forgotten.")
    else:
        say(
            f"What was there before is in {done.before_restore}. New redaction rules do not reach it: delete it when "
            "you no longer need it. The next restore and `helix forget` delete it."
        )
    say("Next: `helix sweep`, then `helix verify`.")
