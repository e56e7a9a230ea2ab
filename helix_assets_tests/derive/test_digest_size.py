"""A digest is small whatever its session was like, and its counts stay whole."""

from __future__ import annotations

import pickle

from helix_assets.derive.digest_builder import MAX_BYTES, DigestBuilder, SessionHead
from helix_assets.derive.fact_builder import FactBuilder
from helix_assets.derive.link import Linker
from helix_assets.model.digest_text import written_digest
from helix_assets.model.event import EventKind, Record, SessionEvent, Usage
from helix_assets_tests.agents.reading import WORDS

HEAD = SessionHead("claude:x", "claude", None, None, None, None, None, None, None, 0, 1, 1, 0)


def test_lists_are_cut_until_the_digest_fits() -> None:
    linker, builder = Linker(WORDS), DigestBuilder(WORDS)
    for number in range(3_000):
        record = Record(number, 0, number, number, number, None, None, number, "user", b"{}")
        call = SessionEvent(EventKind.TOOL_CALL, tool=f"tool {number} " + "x" * 900, call_id=f"c{number}")
        path = f"/home/u/{'é' * 2000}/{number}.py"
        edit = SessionEvent(EventKind.EDIT, file_path=path, lines_added=1, lines_removed=0)
        error = SessionEvent(
            EventKind.ERROR, summary="".join(chr(97 + number // 26**i % 26) for i in range(3)) + "ü" * 190
        )
        builder.add(linker.rows(record, [call, edit, error]))
    digest = builder.finish(HEAD)
    assert len(written_digest(digest)) <= MAX_BYTES
    assert (digest.tool_calls, digest.files_touched, digest.kind_counts["error"]) == (3_000, 3_000, 3_000)


def test_ranges_tell_what_is_covered() -> None:
    linker, builder = Linker(WORDS), DigestBuilder(WORDS)
    records = [Record(n, 0, n, n, n, None, None, n, "user", b"{}") for n in range(6)]
    rows = [row for record in records for row in linker.rows(record, [SessionEvent(EventKind.USER_MSG, summary="x")])]
    builder.add(rows[1:3])
    builder.add(rows[4:])
    assert builder.finish(HEAD).coverage.ranges == ((1, 2), (4, 5))


def test_what_is_kept_for_a_digest_holds_no_source_lines() -> None:
    linker, digests, facts = Linker(WORDS), DigestBuilder(WORDS), FactBuilder(WORDS)
    for n in range(50):
        record = Record(n, 0, n, n, n, f"r{n}", None, n, "assistant", b"x" * 10_000)
        usage = Usage(1, 1, 0, 0, 0, None)
        call = SessionEvent(EventKind.TOOL_CALL, tool="Bash", call_id=f"c{n}", message_id=f"m{n}", usage=usage)
        rows = linker.rows(record, [call])
        digests.add(rows)
        facts.add(rows)
    assert len(pickle.dumps((digests, facts))) < 50_000
