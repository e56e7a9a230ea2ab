"""The repository of a working folder, asked of the disk as long as the folder is there."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from helix_assets.agents import repositories
from helix_assets.agents.repositories import repository_root
from helix_assets_tests.home import Memory, conversation, prompt


@pytest.fixture(autouse=True)
def tests_may_lie_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where `./check` puts them: below /dev, which is left alone otherwise."""
    left_alone = tuple(place for place in repositories._LEFT_ALONE if not tempfile.gettempdir().startswith(place))
    monkeypatch.setattr(repositories, "_LEFT_ALONE", left_alone)
    repository_root.cache_clear()


@pytest.fixture
def shop(tmp_path: Path):
    """A repository with a subfolder."""
    (tmp_path / "shop" / "src" / "api").mkdir(parents=True)
    (tmp_path / "shop" / ".git").mkdir()
    (tmp_path / "shop" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path / "shop"


def linked(folder: Path, gitdir: str) -> Path:
    folder.mkdir(parents=True)
    (folder / ".git").write_text(f"gitdir: {gitdir}\n")
    return folder


def test_subfolder_belongs_to_its_repository(shop: Path):
    assert repository_root(str(shop / "src" / "api")) == str(shop)


def test_worktree_belongs_to_the_main_repository(shop: Path, tmp_path: Path):
    tree = linked(tmp_path / "elsewhere" / "fix", f"{shop}/.git/worktrees/fix")
    (tree / "src").mkdir()
    assert repository_root(str(tree / "src")) == str(shop)


@pytest.mark.parametrize(
    ("gitdir", "root"),
    [
        ("{}/shop.git/worktrees/a", "shop.git"),
        ("{}/bare-shop/.bare/worktrees/a", "bare-shop"),
        ("../shop/.git/worktrees/a", "shop"),
    ],
)
def test_worktree_of_a_bare_or_moved_repository(tmp_path: Path, gitdir: str, root: str):
    tree = linked(tmp_path / "tree", gitdir.format(tmp_path))
    assert repository_root(str(tree)) == str(tmp_path / root)


def test_submodule_is_a_repository_of_its_own(shop: Path):
    inner = linked(shop / "vendor" / "lib", "../../.git/modules/lib")
    assert repository_root(str(inner)) == str(inner)


@pytest.mark.parametrize(
    "cwd",
    ["relative/path", r"C:\shop", "//server/share", "/net/host/shop", "/proc/self/cwd", "/no/such/folder", "/a\0b"],
)
def test_what_is_not_there_or_must_not_be_touched_is_unknown(cwd: str):
    assert repository_root(cwd) is None


def test_session_of_a_subfolder_is_filed_under_the_repository_also_when_that_is_gone(shop: Path, tmp_path: Path):
    memory = Memory(tmp_path / "memory")
    memory.write("s1", prompt("p1", "10:00:00", "go", cwd=str(shop / "src" / "api")))
    memory.sweep()
    assert memory.digest("claude:s1")["repo"] == "shop"
    shutil.rmtree(shop)
    memory.write("s1", prompt("p0", "09:00:00", "begin", cwd=str(shop / "src" / "api")))
    memory.sweep()
    assert (memory.digest("claude:s1")["repo"], memory.digest("claude:s1")["user_prompts"]) == ("shop", 2)
    memory.close()


def test_repository_that_was_never_there_is_told_by_the_path(tmp_path: Path):
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(1))
    memory.sweep()
    assert memory.digest("claude:s1")["repo"] == "shop"
    memory.close()


def test_excluding_a_repository_excludes_its_subfolders(shop: Path, tmp_path: Path):
    memory = Memory(tmp_path / "memory", {"HELIX_EXCLUDE_REPOS": "shop"})
    memory.write("s1", prompt("p1", "10:00:00", "go", cwd=str(shop / "src" / "api")))
    assert memory.sweep().files_excluded == 1
    memory.close()
