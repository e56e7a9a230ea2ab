"""Notes to the hub are Markdown with front matter, whole or not there."""

import json
from pathlib import Path

from helix_assets.keep.notes import write_retro_note


def test_a_retro_note_is_written_once_per_week(tmp_path: Path) -> None:
    for sessions in (3, 4):
        path = write_retro_note(tmp_path, "2026-06-08T04:00:00Z", "2026-06-01", {"sessions": sessions}, "# The week\n")
    (found,) = (tmp_path / "hub").iterdir()
    front = dict(line.split(": ", 1) for line in found.read_text().splitlines()[1:5])
    assert found == path
    assert {name: json.loads(value) for name, value in front.items()} == {
        "kind": "weekly_retro", "at": "2026-06-08T04:00:00Z", "week": "2026-06-01", "sessions": 4}  # fmt: skip
