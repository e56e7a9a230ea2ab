"""The supervisor: when it refuses to start, and that a real tree survives Ctrl-C and a crash."""

import errno
import fcntl
import os
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from helix_assets.model.errors import BusyError, HelixError, StopRun, StoreError
from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.serve.up import Ground, ServeOptions, serve
from helix_assets_tests.home import Memory
from helix_assets_tests.serve.tree import START_SECONDS, Tree, free_port, wait_until

STARTED = "{runsOrError(filter:{statuses:[STARTED]}){... on Runs{count}}}"


class Prepared(HelixError):
    """Raised by the tests' `prepare`, to stop before anything is started."""


def prepare() -> None:
    raise Prepared


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "mybox.local", "127.0.0.1.evil.example", ""])
def test_an_open_address_needs_to_be_asked_for(tmp_path: Path, host: str) -> None:
    with pytest.raises(StopRun, match="--allow-remote"):
        serve(tmp_path, ServeOptions(host=host), print, prepare)


def test_the_token_of_an_open_address_is_made_before_serving(tmp_path: Path) -> None:
    with pytest.raises(Prepared):
        serve(tmp_path, ServeOptions(port=free_port(), host="0.0.0.0", allow_remote=True), print, prepare)
    token = tmp_path / "ui.token"
    assert token.stat().st_mode & 0o777 == 0o600
    assert len(token.read_text().strip()) >= 43


def test_a_loopback_address_makes_no_token(tmp_path: Path) -> None:
    with pytest.raises(Prepared):
        serve(tmp_path, ServeOptions(port=free_port()), print, prepare)
    assert not (tmp_path / "ui.token").exists()


def test_a_taken_port_is_reported_before_the_sweep(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StopRun, match=rf":{port} \(Address already in use\)\. .* helix up --port {port + 1}"):
            serve(tmp_path, ServeOptions(port=port), print, prepare)


def test_a_second_tree_on_the_same_data_is_refused_and_names_the_first(tmp_path: Path) -> None:
    lock = prepare_dagster_home(tmp_path) / "up.lock"
    with lock.open("w") as first:
        first.write("http://127.0.0.1:3000 (process 1)")
        first.flush()
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match=r"127\.0\.0\.1:3000"):
            serve(tmp_path, ServeOptions(port=free_port()), print, prepare)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """A running tree; each test leaves it running."""
    tree = Tree(tmp_path_factory.mktemp("up"))
    tree.start()
    yield tree
    code = tree.end(signal.SIGTERM)
    assert code == 0, tree.output.read_text()


@pytest.mark.real
def test_after_a_crash_dead_runs_are_closed_and_queued_ones_go_on(tree: Tree) -> None:
    dead = [tree.launch("slow"), tree.launch("slow")]
    assert wait_until(lambda: [tree.status(run_id) for run_id in dead] == ["STARTED", "STARTED"])
    queued = tree.launch("toy")
    assert tree.status(queued) == "QUEUED"
    tree.end(signal.SIGKILL)
    assert wait_until(lambda: not _is_served(tree))
    tree.start()
    assert [tree.status(run_id) for run_id in dead] == ["FAILURE", "FAILURE"]
    assert wait_until(lambda: tree.status(queued) == "SUCCESS"), tree.output.read_text()


def _is_served(tree: Tree) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", tree.port)) == 0


@pytest.mark.real
def test_ctrl_c_ends_the_tree_and_a_second_start_works_at_once(tree: Tree) -> None:
    assert wait_until(lambda: tree.ask(STARTED)["runsOrError"]["count"] > 0), "Dagster retries what the crash ended"
    assert tree.end(signal.SIGINT) == 0
    assert "Traceback" not in tree.output.read_text()
    tree.start()
    assert httpx.get(f"{tree.url}/server_info").status_code == 200


@pytest.mark.real
@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_a_tree_whose_data_folder_goes_ends_with_one_plain_message(tmp_path: Path, how: str) -> None:
    own = Tree(tmp_path)
    Memory(tmp_path).close()
    own.start()
    assert own.process is not None
    if how == "moved":
        own.data_dir.rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(own.data_dir, ignore_errors=True)  # a child may make a file in it meanwhile
    try:
        assert own.process.wait(START_SECONDS) == StoreError.exit_code
    finally:
        own.process.kill()
    said = own.output.read_text().splitlines()
    assert len(said) == 2, said
    assert "is gone: the data folder was deleted or moved" in said[1]
    assert not wait_until((own.data_dir / "key").exists, 2)


def test_a_folder_that_is_restored_or_cannot_be_asked_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(tmp_path)
    lock = prepare_dagster_home(memory.store.data_dir) / "up.lock"
    with lock.open("a+") as held:
        ground = Ground(memory.store.data_dir, held)
        catalog = memory.store.catalog.path
        shutil.copyfile(catalog, tmp_path / "copy")
        os.replace(tmp_path / "copy", catalog)
        assert ground.lost() is None
        monkeypatch.setattr(Path, "stat", lambda *_: fail(OSError(errno.ESTALE, "Stale file handle")))
        assert ground.lost() is None
        monkeypatch.undo()
        catalog.unlink()
        assert ground.lost() == catalog
        lock.rename(tmp_path / "old")
        lock.touch()
        assert ground.lost() == lock
    memory.close()


def fail(error: OSError) -> None:
    raise error
