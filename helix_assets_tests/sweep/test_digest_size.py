"""Digests are small: half of them under 4 KB, and that of a session of thousands of turns under 32 KB."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest

from helix_assets.demo import make_home
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.home import Memory, answer, call, prompt, result

HUGE_TURNS = 1_500


def test_half_of_the_digests_are_under_4_kb(tmp_path: Path) -> None:
    make_home(tmp_path / "logs", sessions=40, seed=2)
    homes = {"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "GROK_HOME": "grok"}
    environ = {name: str(tmp_path / "logs" / folder) for name, folder in homes.items()}
    store = open_store(load_settings({**environ, "HOME": str(tmp_path), "HELIX_DATA_DIR": str(tmp_path / "data")}))
    sweep(store)
    with store.catalog.reading() as connection:
        sizes = [len(text.encode()) for text in connection.column("SELECT digest FROM digests")]
    store.close()
    assert len(sizes) == 40
    assert median(sizes) < 4 << 10


@pytest.mark.slow
def test_the_digest_of_a_huge_session_is_under_32_kb(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    text = "output of a long build " * 1_450
    lines = []
    for turn in range(HUGE_TURNS):
        at = f"{turn // 3600:02d}:{turn // 60 % 60:02d}:{turn % 60:02d}"
        path = f"/home/u/shop/package_{turn}/module_{turn}.py"
        lines += [
            prompt(f"p{turn}", at, f"change module {turn}"),
            call(f"c{turn}", at, f"mcp__server__tool_{turn % 400}", f"toolu_{turn}", file_path=path),
            result(f"r{turn}", at, f"toolu_{turn}", f"failure of kind {chr(97 + turn % 26) * 9}: {text}", failed=True),
            answer(f"a{turn}", at, "I try something else", message=f"msg_{turn}"),
        ]
    size = memory.write("huge", *lines).stat().st_size
    memory.sweep()
    digest = memory.digest_text("claude:huge")
    memory.close()
    assert size > 48 << 20
    assert len(digest) < 32 << 10
