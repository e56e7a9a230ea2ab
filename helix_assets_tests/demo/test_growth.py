"""Growing a sample home appends whole turns to some of its sessions and leaves the rest alone."""

from pathlib import Path

import pytest

from helix_assets.demo import append, make_home
from helix_assets_tests.demo.recount import bad_lines, claude_output_tokens, codex_tokens, grok_updates, records


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A small home to grow."""
    make_home(tmp_path / "sample", sessions=20, dirty=False)
    return tmp_path / "sample"


def _contents(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*.jsonl")}


def test_returned_files_and_no_others_grew_at_their_end(sample: Path) -> None:
    before = _contents(sample)
    grown = append(sample, share=0.3)
    after = _contents(sample)
    assert {path for path in after if after[path] != before.get(path)} == set(grown)
    assert all(after[path].startswith(before.get(path, b"")) for path in grown)


def test_grown_files_are_newer_and_still_json(sample: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in sample.rglob("*.jsonl")}
    for path in append(sample, share=1.0):
        assert path.stat().st_mtime_ns > before.get(path, 0)
        assert bad_lines(path) == 0


def test_growing_is_deterministic(tmp_path: Path) -> None:
    for name in ("one", "two"):
        make_home(tmp_path / name, sessions=6)
        append(tmp_path / name, share=0.5)
    one, two = (
        {path.relative_to(tmp_path / name): data for path, data in _contents(tmp_path / name).items()}
        for name in ("one", "two")
    )
    assert one == two


def test_growing_twice_never_repeats_an_id(sample: Path) -> None:
    for _ in range(2):
        append(sample, share=1.0)
    for path in sample.glob("claude/projects/*/*-*-*-*-*.jsonl"):
        uuids = [record["uuid"] for record in records(path) if "uuid" in record]
        assert len(set(uuids)) == len(uuids)


def test_growth_continues_each_agents_counters(sample: Path) -> None:
    claude = claude_output_tokens(sample)
    codex = {path: codex_tokens(path) for path in sample.rglob("rollout-*.jsonl")}
    grok = {path.parent: len(grok_updates(path.parent, "user_message_chunk")) for path in sample.rglob("updates.jsonl")}
    append(sample, share=1.0)
    assert claude_output_tokens(sample) > claude
    assert all(codex_tokens(path) > before for path, before in codex.items())
    assert all(len(grok_updates(folder, "user_message_chunk")) == before + 1 for folder, before in grok.items())


def test_session_with_a_torn_end_stays_as_it_is(sample: Path) -> None:
    torn = next(sample.glob("codex/sessions/*/*/*/rollout-*.jsonl"))
    torn.write_bytes(torn.read_bytes()[:-9])
    assert torn not in append(sample, share=1.0)
