"""The data folder is its owner's alone from the first command on, also where git made it with its README."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from helix_assets.cli.hooks import hooks
from helix_assets.cli.up import enter_demo
from helix_assets.hooks.hook import write_note
from helix_assets.hooks.inbox import INBOX
from helix_assets.kaizen import derived
from helix_assets.keep import report_folder
from helix_assets.keep.backup import make_copy
from helix_assets.keep.forget import forget
from helix_assets.keep.recovery import BEFORE_RESTORE
from helix_assets.keep.restore import choose_copy, restore
from helix_assets.model.errors import StoreError
from helix_assets.prove.doctor import examine
from helix_assets.prove.verify import verify
from helix_assets.prove.verify_secrets import CANARIES
from helix_assets.store.folder import README, own_folder
from helix_assets_tests.conftest import CHECKOUT
from helix_assets_tests.home import NOW, Memory, conversation


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def cloned(folder: Path, umask: int) -> Path:
    """A data folder as git makes it."""
    data = folder / "data"
    data.mkdir(parents=True)
    shutil.copyfile(CHECKOUT / "data" / README, data / README)
    data.chmod(0o777 & ~umask)
    (data / README).chmod(0o666 & ~umask)
    return data


@pytest.fixture(params=[0o022, 0o002], ids=["alone", "with a group"])
def data(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return cloned(tmp_path, request.param)


def test_the_folder_of_a_clone_becomes_a_sound_store(data: Path) -> None:
    memory = Memory(data.parent)
    memory.write("s1", *conversation(1))
    memory.sweep()
    assert mode(data) == 0o700
    assert verify(memory.store) == []
    assert [one for one in examine(NOW, memory.variables) if one.check == "rights" and one.state == "wrong"] == []
    memory.close()


@pytest.mark.parametrize("first", ["note", "canaries"])
def test_a_note_or_canaries_may_come_before_the_first_sweep(data: Path, first: str) -> None:
    if first == "note":
        write_note(str(data / INBOX), {"at": 1})
    else:
        (data / CANARIES).write_text("quokka\n")
    own_folder(data)
    assert mode(data) == 0o700


def test_doctor_is_content_with_the_folder_of_a_clone(data: Path) -> None:
    variables = {"HOME": str(data.parent), "HELIX_DATA_DIR": str(data)}
    assert [one for one in examine(NOW, variables) if one.check == "rights" and one.state == "wrong"] == []


def test_hooks_and_the_demo_may_come_before_the_first_sweep(
    data: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_DATA_DIR", str(data))
    (home / ".claude").mkdir()
    assert CliRunner().invoke(hooks, ["install", "--agent", "claude"]).exit_code == 0
    assert mode(data) == 0o700
    (data / "demo-home").mkdir()
    data.chmod(0o755)
    monkeypatch.setattr(os, "environ", dict(os.environ))  # the demo points this process to itself
    enter_demo(data, print)
    assert mode(data) == 0o700
    Memory(data.parent).close()


def test_a_folder_in_which_others_could_put_something_is_refused(data: Path) -> None:
    (data / "key").touch()
    data.chmod(0o775)
    with pytest.raises(StoreError, match="chmod 700"):
        own_folder(data)
    assert mode(data) == 0o775


def test_copies_forgetting_and_restoring_leave_the_readme_alone(data: Path) -> None:
    memory = Memory(data.parent)
    for name in ("s1", "s2"):
        memory.write(name, *conversation(1, session=name))
    memory.sweep()
    make_copy(memory.store, NOW)
    forget(memory.store, ["claude:s1"], now=NOW)
    memory.close()
    restored = restore(memory.store.settings, choose_copy(memory.store.settings), NOW)
    again = Memory(data.parent)
    assert (verify(again.store), restored.lost) == ([], ())
    assert [path.parent for path in data.rglob(README)] == [data]
    assert (data / README).read_text() == (CHECKOUT / "data" / README).read_text()
    again.close()


def test_the_readme_names_all_that_lies_there(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(1))
    memory.sweep()
    make_copy(memory.store, NOW)
    memory.close()
    made = {path.name for path in (tmp_path / "data").iterdir()}
    made |= {INBOX, CANARIES, BEFORE_RESTORE, derived.FOLDER, report_folder.FOLDER}
    text = (CHECKOUT / "data" / README).read_text()
    assert [name for name in sorted(made) if f"`{name}`" not in text and f"`{name}/`" not in text] == []
