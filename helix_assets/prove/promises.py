"""The promises of the memory: each is one function that asks the store, and one row of `PROMISES` below.

A row says who asks: `helix verify`, a check of an asset in Dagster, `helix doctor`. Belongs here: the table, and what
is promised of the store as a whole. Not here: what is promised of one session (`prove.verify_sessions`, which lists it)
and of the facts of a day (`prove.verify_facts`).
"""

from __future__ import annotations

import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import shuffle
from typing import Any

from helix_assets.ask.coverage import versions
from helix_assets.ask.reading import read_consistently
from helix_assets.keep.evict import memory_bytes, plan
from helix_assets.model.digest_text import parsed_digest, wrong_fields
from helix_assets.model.errors import ChangedError, HelixError
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.prove.answer import Answer, Violation, unless
from helix_assets.prove.drift import drift_of, figures_of
from helix_assets.prove.vanishing import vanishing
from helix_assets.prove.verify_facts import Counted, damaged_digest, wrong_facts
from helix_assets.prove.verify_sessions import wrong_messages, wrong_sessions
from helix_assets.store.catalog import digests, live_files, losses, sessions
from helix_assets.store.catalog.retries import failed_sessions
from helix_assets.store.folder import all_in
from helix_assets.store.proof import is_proven
from helix_assets.store.store import Store
from helix_assets.store.words.keep import index_of, live_names
from helix_assets.sweep.sweep import utc_now

SAMPLE = 100
SCAN_BYTES = 8 << 20
UNPARSED_SHARE = 0.01
UNKNOWN_SHARE = 0.05
_LISTED = 50

# -- the folder and the catalog --------------------------------------------------------------------------------------


def files_are_private(store: Store) -> Iterator[Violation]:
    """No file or folder of the memory can be opened by other users."""
    return open_to_others(store.data_dir)


def open_to_others(data_dir: Path) -> Iterator[Violation]:
    """What other users could open. There need not be a memory in the folder yet."""
    for path, info in all_in(data_dir):
        if not stat.S_ISLNK(info.st_mode) and info.st_mode & 0o077:
            mode = stat.S_IMODE(info.st_mode)
            yield Violation("private", f"has mode {mode:04o}: run `chmod go= {path}`", path=path)


def catalog_is_sound(store: Store) -> Iterator[Violation]:
    """The database is undamaged: its pages, its indexes, its references, its values."""
    for what in store.catalog.damage():  # readers pass over a damaged index, but sweeps fail on it
        yield Violation("catalog_integrity", what, path=str(store.catalog.path))


def files_are_named(store: Store) -> Iterator[Violation]:
    """The raw cache and the facts contain no file that the catalog does not name."""
    on_disk = {path for root in (store.raw.root, store.facts.root) for path in root.rglob("*") if path.is_file()}
    if _is_being_written(store):
        return
    with store.catalog.reading() as connection:
        known = {store.raw.path(name) for name in live_files.part_names(connection)}
        known |= {store.facts.path(file.name) for file in live_files.fact_files(connection)}
    unknown = sorted(path for path in on_disk - known if path.exists())
    if unknown and not _is_being_written(store):
        for path in unknown:
            root = store.raw.root if path.is_relative_to(store.raw.root) else store.data_dir
            yield Violation("file_has_row", "is not in the catalog", path=str(path.relative_to(root)))


def _is_being_written(store: Store) -> bool:
    """Whether a writer holds the lock, or was killed and its leftovers wait for the next one."""
    try:
        return (store.data_dir / "lock").stat().st_size > 0
    except FileNotFoundError:
        return False


def search_index_is_undamaged(store: Store) -> Iterator[Violation]:
    """Every file of the search index is the one that was written."""
    for path in index_of(store).open(thorough=True)[1]:
        what = "is damaged: run `helix search`, which rebuilds it from the raw cache"
        yield Violation("search_index", what, path=path.name)


def search_index_holds_nothing_gone(store: Store) -> Iterator[Violation]:
    """The search index contains no words of what is gone. The next sweep adds what it lacks."""
    from helix_assets.store.words.segment import names_of  # loads numpy

    def gone() -> set[str]:
        names = names_of(index_of(store).open()[0])
        with store.catalog.reading() as connection:  # files whose eviction has begun may still be in it
            return names - live_names(store).keys() - live_files.part_names(connection)

    if gone() and not _is_being_written(store) and (left := gone()):
        what = f"holds words of {len(left)} files or digests that are gone: the next sweep with news erases them"
        yield Violation("search_index", what)


# -- what went -------------------------------------------------------------------------------------------------------


def every_evicted_session_has_a_covering_digest_or_a_loss_record(store: Store) -> Answer:
    """No raw bytes of a session went without a digest that covers them or a durable record of the loss."""
    with store.catalog.reading() as connection:
        found = losses.without_cover(connection)
        total, lost = losses.evicted_count(connection)
    before = "texts or raw bytes went before a digest covered them"
    now = "raw bytes went without a covering digest or a loss record"
    wrong = [Violation("evicted_was_covered", before, one.session_uid) for one in found if one.before]
    wrong += [Violation("evicted_is_covered", now, one.session_uid) for one in found if one.now]
    figures = {"evicted": total, "without_cover_or_record": len(found), "with_a_loss_record": lost}
    return Answer(not wrong, figures, wrong)


def no_evicted_session_has_a_file_left(store: Store) -> Answer:
    """No session that counts as evicted has a file left, in the catalog or on the disk."""
    with store.catalog.reading() as connection:
        named = live_files.parts_of_evicted(connection)
        keys = set(losses.evicted_file_keys(connection))
    wrong = [Violation("evicted_is_gone", "is evicted and still has files", uid) for uid in dict(named)]
    left = [one for one in files_are_named(store) if Path(one.path or "").name.split(".")[0] in keys]
    figures = {"evicted": len(keys), "files_named": len(named), "files_on_disk": len(left)}
    return Answer(not named and not left, figures, [*wrong, *left])


def logs_read_before_they_are_deleted(store: Store) -> Answer:
    """No log vanished before it was read, and no agent will delete an unread one within a week."""
    found = vanishing(store, utc_now())
    figures = {"vanished_unread": found.vanished, "deleted_soon": found.due, "deleted_soon_bytes": found.due_bytes}
    return Answer(not found.vanished and not found.due, figures)


# -- sessions, digests and facts -------------------------------------------------------------------------------------


def sessions_are_sound(store: Store) -> Iterator[Violation]:
    """Files, counters, digest and records of each session agree: `prove.verify_sessions` lists what that means."""
    return wrong_sessions(store)


def digests_are_as_written(store: Store) -> Iterator[Violation]:
    """Every analysed session has its digest, it is the one that was written, and has the fields of a digest."""
    with store.catalog.reading() as connection:
        for uid in digests.missing(connection):
            yield Violation("digest_exists", "counts as analysed and has no digest", uid)
        for row in digests.to_prove(connection):
            if not is_proven(row, store.key):
                yield damaged_digest(row.session_uid)
                continue
            if wrong := ", ".join(wrong_fields(row.digest)):
                yield Violation("digest_has_its_fields", f"its digest cannot be understood: {wrong}", row.session_uid)


def facts_add_up(store: Store) -> Answer:
    """The facts are undamaged, and what each digest counts and sums up: rows, calls, messages, tokens, costs."""
    counted = Counted()
    answer = unless(store, wrong_facts(store, counted))
    figures = {name: value for name, value in vars(counted).items() if name != "models"}
    return Answer(answer.holds, {**answer.figures, **figures, "models": len(counted.models)}, answer.wrong)


def token_totals_add_up(store: Store) -> Answer:
    """Tokens and costs are the same by session, day, repository, model and agent, in digests, facts and messages.

    A session's totals are the sum of its main thread and its subagents, and of its messages, each counted once. The
    messages are those of a sample; `helix verify` reads all.
    """
    with store.catalog.reading() as connection:
        some = sessions.sample(connection, SAMPLE, versions())
    facts, messages = facts_add_up(store), unless(store, wrong_messages(store, some))
    figures = {**facts.figures, **messages.figures, "sessions_compared_with_their_messages": len(some)}
    return Answer(facts.holds and messages.holds, figures, [*facts.wrong, *messages.wrong])


def every_session_is_derived(store: Store) -> Answer:
    """Every session could be read and digested. Failed sessions are counted and retried."""
    with store.catalog.reading() as connection:
        total, failed = sessions.count(connection), failed_sessions(connection)
    figures: dict[str, Any] = {"sessions": total, "set_aside": len(failed)}
    if failed:
        # The reason's first word is the class of the error: the rest may contain words of the session.
        reasons = Counter(one.failure.split()[0].rstrip(":") for one in failed)
        figures["reasons"] = ", ".join(f"{reason}: {count}" for reason, count in reasons.most_common(_LISTED))
        figures["most_tries"] = max(one.failures for one in failed)
        figures["next_try_at"] = min((one.retry_at for one in failed if one.retry_at), default="with the next sweep")
    return Answer(not failed, figures, [Violation("session_derived", one.failure, one.session_uid) for one in failed])


def digests_at_current_version(store: Store) -> Answer:
    """Every digest covers all stored rows of its session and follows the current rules; other partitions are listed."""
    stale = stale_partitions(store)
    figures: dict[str, Any] = {"stale_partitions": len(stale), "digest_version": str(DIGEST_VERSION)}
    if stale:
        figures["first_of_them"] = ", ".join(sorted("|".join(reversed(partition)) for partition in stale)[:_LISTED])
    return Answer(not stale, figures)


def stale_partitions(store: Store) -> set[tuple[str, str]]:
    """Partitions with sessions that older rules derived, or that grew since, and that can still be derived."""
    with store.catalog.reading() as connection:
        return sessions.stale_partitions(connection, versions())


def few_lines_unparsed(store: Store) -> Answer:
    """Only few lines of each agent are broken or of an unknown type. More mean that its log format has changed."""
    drifts = drift_of(store)
    figures: dict[str, Any] = {}
    for flavor, drift in drifts.items():
        figures |= figures_of(flavor, drift)
    totals = [drift.total for drift in drifts.values()]
    is_readable = all(total.unparsed <= max(1, UNPARSED_SHARE * total.records) for total in totals)
    is_known = all(total.unknown <= max(1, UNKNOWN_SHARE * total.records) for total in totals)
    return Answer(is_readable and is_known, figures)


def prices_known(store: Store) -> Answer:
    """Every model that used tokens has a price. Models without one are counted, and their costs are null."""
    with store.catalog.reading() as connection:
        unpriced = [parsed_digest(text)["unpriced_models"] for text in digests.with_unpriced_models(connection)]
    models = {model for one in unpriced for model in one}
    figures: dict[str, Any] = {"models_without_a_price": len(models)}
    if models:
        figures |= {"sessions_without_a_cost": len(unpriced), "named_by": "`helix report usage_report`, by model"}
    return Answer(not models, figures)


def no_secret_survives_in_raw_cache(store: Store) -> Answer:
    """Neither the rules in force nor the list of canaries find anything in a sample of new and old files.

    The sample differs each time. `helix verify --secrets` reads everything.
    """
    from helix_assets.prove.verify_secrets import load_probe, survivors_in_rows

    probe = load_probe(store)
    scanned = found = 0
    for text, survivors in survivors_in_rows(probe, sampled_files(store)):
        found += len(survivors)
        scanned += len(text)
        if scanned > SCAN_BYTES:
            break
    return Answer(found == 0, {"bytes_scanned": scanned, "secrets_found": found})


def sampled_files(store: Store) -> list[Path]:
    """Files of the newest sessions and of some random others, shuffled. Only sessions whose files all exist."""
    with store.catalog.reading() as connection:
        parts = live_files.parts_of(connection, sessions.sample(connection, SAMPLE)).values()
    paths = [[store.raw.path(part.name) for part in files] for files in parts]
    shuffle(paths)
    return [path for files in paths if all(path.exists() for path in files) for path in files]


# -- room ------------------------------------------------------------------------------------------------------------


def raw_cache_within_budget(store: Store) -> Answer:
    """The raw cache is not above its soft cap."""
    now = plan(store, now=utc_now())
    used = now.usage_before + now.index_bytes
    figures = {
        "bytes": used,
        "index_bytes": now.index_bytes,
        "soft_cap_bytes": now.soft_cap,
        "hard_cap_bytes": now.hard_cap,
    }
    figures |= {"bytes_after_next_eviction": now.usage_after, "sessions_to_go": len(now.goes)}
    return Answer(used <= now.soft_cap, figures)


def memory_within_its_cap(store: Store) -> Answer:
    """Digests and facts are not above the cap at which somebody should look. They are never dropped."""
    with store.catalog.reading() as connection:
        used, cap = memory_bytes(store, connection), store.settings.retention.distilled_cap_bytes
    return Answer(used <= cap, {"bytes": used, "cap_bytes": cap})


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AssetCheck:
    """How Dagster asks a promise: as a check of which asset, and what happens if it does not hold.

    If a `blocking` one fails as an error, the rest of the run does not start. `before_eviction` ones run first. `walks`
    says that it reads the whole memory: if that is large, the sensor's sweeps ask it only once an hour. `is_slow` ones
    also take longer for a larger memory, or read files: outside of runs they are asked once an hour.
    """

    asset: str
    is_error: bool = False
    blocking: bool = False
    before_eviction: bool = False
    walks: bool = False
    is_slow: bool = False


@dataclass(frozen=True)
class Advice:
    """What the doctor says if a promise does not hold. `{count}` violations, of which `{first}` is one."""

    topic: str
    what: str
    do: str


@dataclass(frozen=True)
class Promise:
    """A promise and who asks it. The function's name is its name, and its docstring says it in a sentence.

    The function yields what breaks the promise. One that has figures, too, returns an answer.
    """

    ask: Callable[[Store], Answer | Iterator[Violation]]
    is_verified: bool = False
    check: AssetCheck | None = None
    advice: Advice | None = None

    @property
    def name(self) -> str:
        return self.ask.__name__

    def asked(self, store: Store) -> Answer:
        """Ask once."""
        found = self.ask(store)
        return found if isinstance(found, Answer) else unless(store, found)

    def answer(self, store: Store) -> Answer:
        """Ask once. If it cannot be asked, the promise does not hold."""
        try:
            return self.asked(store)
        except HelixError as exc:
            # Its message may name a session, and Dagster's records are kept when a session is forgotten.
            figures = {"cannot_be_asked": f"{type(exc).__name__}: `helix verify` says what is wrong"}
            return Answer(False, figures, [Violation("catalog_readable", str(exc), path=str(store.catalog.path))])

    def settled(self, store: Store) -> Answer:
        """Ask, and ask again if it does not hold and something was written meanwhile.

        A promise may read the store several times, and during a sweep these reads are not of one moment.
        """
        answers: list[Answer] = []

        def ask() -> Answer:
            before = store.catalog.change()
            answers.append(self.answer(store))
            if not answers[-1].holds and store.catalog.change() != before:
                raise ChangedError("the store was written to")
            return answers[-1]

        try:
            return read_consistently(ask)
        except ChangedError:
            return answers[-1]


RESTORE = "`helix verify` names the sessions; `helix restore` puts a copy back, and logs that are there are read again"
_DAMAGED = Advice("store", "the catalog is damaged: {first.what}", RESTORE)
_NO_DIGEST = Advice("store", "{count} digests are damaged or missing", RESTORE)
_NO_INDEX = Advice(
    "search",
    "{count} files of the search index are damaged, such as {first.path}",
    "run `helix search WORD`: it rebuilds them from the raw cache",
)
_FAILED = Advice(
    "sessions",
    "{count} sessions could not be read or digested",
    "`helix status` names the newest and why; each is tried again by itself",
)
_OVER_CAP = Advice("disk", "digests and facts are over their cap", "raise distilled_cap_bytes: they are never dropped")

_FILES, _EVENTS, _DIGESTS, _REPORT = "source_files", "session_events", "session_digests", "retention_report"
_BEFORE_ALL = AssetCheck(_DIGESTS, is_error=True, blocking=True, before_eviction=True)
_WALK = AssetCheck(_DIGESTS, is_error=True, walks=True, is_slow=True)

PROMISES: Sequence[Promise] = (
    Promise(files_are_private, is_verified=True),
    Promise(catalog_is_sound, is_verified=True, advice=_DAMAGED),
    Promise(files_are_named, is_verified=True),
    Promise(sessions_are_sound, is_verified=True),
    Promise(digests_are_as_written, is_verified=True, advice=_NO_DIGEST),
    Promise(facts_add_up, is_verified=True),
    Promise(search_index_is_undamaged, is_verified=True, advice=_NO_INDEX),
    Promise(search_index_holds_nothing_gone, is_verified=True),
    Promise(logs_read_before_they_are_deleted, check=AssetCheck(_FILES, is_slow=True)),
    Promise(raw_cache_within_budget, check=AssetCheck(_EVENTS, before_eviction=True, is_slow=True)),
    Promise(no_secret_survives_in_raw_cache, check=AssetCheck(_EVENTS, is_error=True, is_slow=True)),
    Promise(few_lines_unparsed, check=AssetCheck(_EVENTS, walks=True, is_slow=True)),
    Promise(every_evicted_session_has_a_covering_digest_or_a_loss_record, is_verified=True, check=_BEFORE_ALL),
    Promise(token_totals_add_up, check=_WALK),
    Promise(prices_known, check=AssetCheck(_DIGESTS)),
    Promise(every_session_is_derived, check=AssetCheck(_DIGESTS), advice=_FAILED),
    Promise(digests_at_current_version, check=AssetCheck(_DIGESTS)),
    Promise(memory_within_its_cap, check=AssetCheck(_DIGESTS), advice=_OVER_CAP),
    Promise(no_evicted_session_has_a_file_left, is_verified=True, check=AssetCheck(_REPORT, is_error=True)),
)
