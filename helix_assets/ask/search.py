"""Full-text search over the raw cache, and over the digests of what was evicted.

The index says which row groups may contain the words, and ranks them (BM25 over row groups). The best are read and
searched for the exact terms. A session is found if it contains every term, unless its texts are withheld.
Not here: what a query is (`ask.query`), how the index is kept (`store.words.keep`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from helix_assets.ask.passages import Passage, passages_of
from helix_assets.ask.query import Snippet, Term, parse_query, snippet
from helix_assets.ask.reading import read_consistently
from helix_assets.ask.withheld import has_withheld_texts, refuse_unredacted
from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.errors import ChangedError, QueryError, StoreError
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import digests, sessions
from helix_assets.store.proof import is_proven
from helix_assets.store.raw import file_hash
from helix_assets.store.store import Store
from helix_assets.store.words.hashing import Array, WordHasher
from helix_assets.store.words.keep import DIGEST, digest_passages, index_of, live_names
from helix_assets.store.words.segment import Segment

LIMIT = 10
SECONDS = 10.0
EXCERPTS = 3
_K, _B = 1.2, 0.75
_DIGEST_KINDS = {
    "first_prompt": ("user_msg", "user"),
    "last_assistant": ("assistant_msg", "assistant"),
    "error": ("error", None),
}


@dataclass(frozen=True, kw_only=True)
class Filters:
    """The limits of a search; None is no limit."""

    repo: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    kind: str | None = None
    role: str | None = None


@dataclass(frozen=True)
class Excerpt:
    """A passage that contains a term. `source`: a whole `record`, the `event` left of one, or the `digest`.

    `seq` is None in the digest, and for a record without a place in the conversation.
    """

    source: str
    seq: int | None
    kind: str | None
    role: str | None
    tool: str | None
    ts: str | None
    record_key: int | None
    snippet: Snippet


@dataclass(frozen=True)
class Hit:
    """A session that was found. If it was evicted, at `evicted_at`, only its digest can be found."""

    session_uid: str
    flavor: str
    repo: str | None
    title: str | None
    day: str
    started_at: str | None
    evicted_at: str | None
    score: float
    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True)
class Found:
    """The best sessions. `is_complete`: the search was finished, and there are no more.

    `unindexed` is how many files are missing in the index, because it is damaged or not up to date. `left_out` names
    damaged sessions, `withheld` counts those that were not searched, because the redaction rules changed.
    """

    hits: tuple[Hit, ...]
    is_complete: bool
    unindexed: int
    left_out: tuple[str, ...]
    withheld: int


class _Place(NamedTuple):
    """A document that may contain a term."""

    score: float
    segment: int
    document: int


@dataclass
class _State:
    """The index and the catalog at one time, as arrays by segment and document."""

    mark: Any
    segments: list[Segment]
    live: dict[str, Any]
    sessions: dict[int, Any]
    owners: list[Array] = field(default_factory=list)
    sizes: list[Array] = field(default_factory=list)
    unindexed: int = 0
    documents: int = 0


class Finder:
    """A store opened for searching; keeps what it has read until the store changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._hasher = WordHasher(store.key)
        self._state: _State | None = None
        self._whole: set[str] = set()
        self._damaged: set[Path] = set()

    def find(
        self, query: str, filters: Filters | None = None, *, limit: int = LIMIT, seconds: float = SECONDS
    ) -> Found:
        """The sessions that contain every term of a query, best first. QueryError says what is wrong with it.

        WithheldError if the redaction rules changed and no sweep has redacted the catalog since.
        """
        refuse_unredacted(self._store)
        filters = filters or Filters()
        if filters.since and filters.until and filters.since >= filters.until:
            raise QueryError(f"the search ends ({filters.until:%Y-%m-%d}) before it begins ({filters.since:%Y-%m-%d})")
        parse_query(query)  # what is wrong with it is said before anything is read
        until = time.monotonic() + seconds

        def find() -> Found:
            try:
                state = self._fresh()
                terms = parse_query(query, partial(self._known, state))
                return self._found(state, terms, filters, limit, until)
            except ChangedError:
                self._state = None
                raise

        return read_consistently(find)

    def _found(self, state: _State, terms: Sequence[Term], filters: Filters, limit: int, until: float) -> Found:
        hits: list[Hit] = []
        left_out: set[str] = set()
        wanted = self._wanted(state, filters)
        withheld = {number for number in wanted if self._is_withheld(state.sessions[number])}
        ranked = self._ranked(state, terms, wanted - withheld)
        for session_id, places in ranked:
            if len(hits) == limit or time.monotonic() > until:
                return Found(tuple(hits), False, state.unindexed, tuple(sorted(left_out)), len(withheld))
            session = state.sessions[session_id]
            try:
                excerpts = self._excerpts(state, session, places, terms, filters)
            except StoreError:
                self._refuse_changed(state, places)
                left_out.add(session.session_uid)
                continue
            if excerpts:
                hits.append(self._hit(session, places[0].score, excerpts))
        return Found(tuple(hits), True, state.unindexed, tuple(sorted(left_out)), len(withheld))

    # -- which sessions may contain it, best first -------------------------------------------------------------------

    def _fresh(self) -> _State:
        """The state, read again if the store has changed."""
        mark = _mark(self._store)
        if self._state is None or self._state.mark != mark:
            self._state = self._read(mark)
        return self._state

    def _read(self, mark: Any) -> _State:
        live = live_names(self._store)
        with self._store.catalog.reading() as connection:
            known = sessions.for_search(connection)
        segments = [one for one in index_of(self._store).open()[0] if one.path not in self._damaged]
        state = _State(mark, segments, live, {row.id: row for row in known})
        indexed: set[str] = set()
        for segment in segments:
            names = [document.name for document in segment.documents]
            # A killed writer can leave a document in two segments; it counts in the first.
            owners = [live[name].id if name in live and name not in indexed else -1 for name in names]
            indexed.update(names)
            state.owners.append(np.array(owners, np.int64))
            state.sizes.append(np.array([document.size for document in segment.documents], np.float64))
            state.documents += sum(owner >= 0 for owner in owners)
        state.unindexed = sum(name not in indexed for name in live)
        return state

    def _is_withheld(self, session: Any) -> bool:
        return has_withheld_texts(self._store, session.redaction_version)

    def _ranked(self, state: _State, terms: Sequence[Term], wanted: set[int]) -> list[tuple[int, list[_Place]]]:
        """Wanted sessions with all terms by the index, best first, with their documents, best first."""
        mean = max(1.0, sum(float(sizes.sum()) for sizes in state.sizes) / max(1, state.documents))
        scores = [np.zeros(len(owners)) for owners in state.owners]
        held: set[int] | None = None
        for term in terms:
            owners_of_term: set[int] = set()
            found = [self._counts(segment, term) for segment in state.segments]
            frequency = sum(int(np.count_nonzero(counts)) for counts in found)
            weight = np.log(1 + (state.documents - frequency + 0.5) / (frequency + 0.5)) if state.documents else 0.0
            for place, counts in enumerate(found):
                size = state.sizes[place] / mean
                scores[place] += max(weight, 0.01) * counts * (_K + 1) / (counts + _K * (1 - _B + _B * size) + 1e-9)
                owners_of_term.update(np.unique(state.owners[place][counts > 0]).tolist())
            held = owners_of_term if held is None else held & owners_of_term
        places: dict[int, list[_Place]] = {}
        for number, owners in enumerate(state.owners):
            for document in np.flatnonzero((scores[number] > 0) & (owners >= 0)).tolist():
                owner = int(owners[document])
                if owner in (held or ()) and owner in wanted:
                    places.setdefault(owner, []).append(_Place(float(scores[number][document]), number, document))
        for some in places.values():
            some.sort(reverse=True)
        return sorted(places.items(), key=lambda item: (-item[1][0].score, -item[0]))

    def _known(self, state: _State, forms: Sequence[str]) -> list[str]:
        """Those of some words that are in the index."""
        numbers, is_there = self._hasher.each(forms), np.zeros(len(forms), bool)
        for segment in state.segments:
            with self._noting_damage(segment):
                is_there |= segment.has(numbers)
        return [form for form, found in zip(forms, is_there, strict=True) if found]

    @contextmanager
    def _noting_damage(self, segment: Segment) -> Iterator[None]:
        """ChangedError if a segment is damaged; then it is left out."""
        try:
            yield
        except StoreError as exc:
            self._damaged.add(segment.path)
            raise ChangedError(f"{exc}: run `helix search` again") from exc

    def _counts(self, segment: Segment, term: Term) -> Array:
        """How often a term may occur in each document of a segment: as often as the rarest of its words."""
        counts = np.full(len(segment.documents), np.inf)
        for place, word in enumerate(term.words):
            is_begin = term.is_prefix and place == len(term.words) - 1
            written = _cases(word).union(term.forms)
            hashes = [self._hasher.prefix(one) if is_begin else [self._hasher.word(one)] for one in written]
            of_word = np.zeros(len(segment.documents))
            for some in hashes:
                if some is None:  # too short a beginning for the index: any document may contain it
                    of_word += 1
                    continue
                for one in some:
                    with self._noting_damage(segment):
                        documents, times = segment.find(one)
                    of_word[documents] += times
            counts = np.minimum(counts, of_word)
        return counts

    def _wanted(self, state: _State, filters: Filters) -> set[int]:
        since = microseconds(filters.since) if filters.since else None
        until = microseconds(filters.until) if filters.until else None
        return {
            number
            for number, row in state.sessions.items()
            if (filters.repo is None or row.repo == filters.repo)
            and (filters.agent is None or row.flavor == filters.agent)
            and (since is None or (row.ended_us or row.started_us or 0) >= since)
            and (until is None or (row.started_us or row.ended_us or 0) < until)
        }

    # -- what the documents really contain ---------------------------------------------------------------------------

    def _excerpts(
        self, state: _State, session: Any, places: Sequence[_Place], terms: Sequence[Term], filters: Filters
    ) -> list[Excerpt]:
        """Passages of a session, best documents first, until each term is found; empty if one is not found."""
        met: set[int] = set()
        excerpts: list[Excerpt] = []

        def is_wanted(kind: str | None, role: str | None) -> bool:
            return filters.kind in (None, kind) and filters.role in (None, role)

        found: Sequence[Passage]
        for place in places:
            document = state.segments[place.segment].documents[place.document]
            if document.name.startswith(DIGEST):
                found = [one for one in self._in_digest(session, terms) if is_wanted(one.kind, one.role)]
            else:
                path = self._proven(state.live[document.name])
                found = passages_of(path, document.group, terms, is_wanted)
            for passage in found:
                mine = {number for number, term in enumerate(terms) if term.search(passage.text)}
                is_new = not mine <= met
                met |= mine
                if is_new or len(excerpts) < EXCERPTS:
                    _add(excerpts, passage, terms)
            if len(met) == len(terms):
                return excerpts[: max(EXCERPTS, len(terms))]
        return []

    def _proven(self, part: Any) -> Path:
        """A part file, checked by its hash at the first read. StoreError if it is damaged or gone."""
        path = self._store.raw.path(part.name)
        if part.name not in self._whole:
            try:
                is_whole = file_hash(path, self._store.key) == part.hash
            except OSError:
                is_whole = False
            if not is_whole:
                raise StoreError(f"{path.name} is missing or damaged: run `helix verify`")
            self._whole.add(part.name)
        return path

    def _refuse_changed(self, state: _State, places: Sequence[_Place]) -> None:
        """ChangedError if the catalog no longer names these files of a session; else they are damaged."""
        names = [state.segments[place.segment].documents[place.document].name for place in places]
        live = live_names(self._store)
        if any(name not in live or live[name].hash != state.live[name].hash for name in names):
            raise ChangedError("the store changes faster than it can be searched: try again")

    def _in_digest(self, session: Any, terms: Sequence[Term]) -> Iterator[Passage]:
        with self._store.catalog.reading() as connection:
            row = digests.of(connection, session.session_uid)
        if row is None or not is_proven(row, self._store.key):
            raise StoreError(f"the digest of {session.session_uid} is damaged")
        for name, text in digest_passages(parsed_digest(row.digest)):
            kind, role = _DIGEST_KINDS.get(name, (None, None))
            if any(term.search(text) for term in terms):
                yield Passage("digest", None, kind, role, None, None, None, text)

    def _hit(self, session: Any, score: float, excerpts: Sequence[Excerpt]) -> Hit:
        return Hit(
            session_uid=session.session_uid,
            repo=session.repo,
            title=session.title,
            flavor=session.flavor,
            day=session.day,
            started_at=iso(session.started_us),
            evicted_at=session.evicted_at or session.evicting_at,
            score=round(score, 3),
            excerpts=tuple(excerpts),
        )


def _add(excerpts: list[Excerpt], passage: Passage, terms: Sequence[Term]) -> None:
    piece = snippet(passage.text, terms)
    if all(piece.text != excerpt.snippet.text for excerpt in excerpts):  # an agent's second copy shows nothing new
        about = passage._asdict() | {"ts": iso(passage.ts_us), "snippet": piece}
        excerpts.append(Excerpt(**{name: about[name] for name in Excerpt.__annotations__}))


def _cases(word: str) -> set[str]:
    """The word as it may be in the index, which does not lower non-ASCII letters."""
    return {word.lower()} if word.isascii() else {word, word.lower(), word.upper(), word.capitalize()}


def _mark(store: Store) -> tuple[Any, ...]:
    """A value that changes whenever the catalog or the index is written to."""
    try:
        info = index_of(store).root.stat()
    except OSError:
        return (store.catalog.change(),)
    return store.catalog.change(), info.st_mtime_ns, info.st_size
