"""One session that hangs or eats memory is set aside with its reason; the others are taken in."""

import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helix_assets.agents.claude.adapter import ClaudeParser
from helix_assets.derive.digest_builder import DigestBuilder
from helix_assets.prove.verify import verify
from helix_assets.sweep import workers
from helix_assets.sweep.task import IngestTask, Limits
from helix_assets_tests.home import Memory, conversation, prompt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is limited, and workers are forked, on Linux")
MIB = 1 << 20


@pytest.fixture(params=["in place", "with the pool"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """A memory with one session that the planted trouble finds and two that it does not."""
    if request.param == "with the pool":
        monkeypatch.setattr(workers, "IN_PLACE_BYTES", 0)
    # Forked workers have what a test planted.
    monkeypatch.setattr(workers, "_context", lambda: multiprocessing.get_context("fork"))
    limits = {"HELIX_SWEEP_SESSION_SECONDS": "1", "HELIX_SWEEP_WORKER_MEMORY_BYTES": f"{300 * MIB}"}
    memory = Memory(tmp_path, limits)
    memory.write("bad", prompt("p1", "10:00:00", "this one is trouble"))
    memory.write("good", *conversation(1, session="g"))
    memory.write("fine", *conversation(1, session="f"))
    yield memory
    memory.close()


def plant(monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], object]) -> None:
    """Make the adapter run into trouble at the one session."""
    feed = ClaudeParser.feed

    def feeding(self: ClaudeParser, obj: Any, record: Any) -> Any:
        if "trouble" in str(obj):
            trouble()
        return feed(self, obj, record)

    monkeypatch.setattr(ClaudeParser, "feed", feeding)


def eat() -> bytearray:
    return bytearray(1 << 30)


def swallow() -> None:
    """Code that takes every exception for its own."""
    while True:
        try:
            time.sleep(20)
        except Exception:  # noqa: BLE001
            continue


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [(swallow, "it took longer than 1 s"), (eat, "it needs more memory than sweep.worker_memory_bytes allows")],
)
def test_trouble_in_an_adapter_costs_its_session_the_digest_alone(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], object], reason: str
) -> None:
    plant(monkeypatch, trouble)
    report = memory.sweep()
    assert [reason in why for _, why in report.problems] == [True]
    assert (report.sessions_failed, report.digests_written, report.digests_failed) == (0, 2, 1)
    assert memory.row("claude:bad").record_count == 1
    assert verify(memory.store) == []


def test_a_digest_that_hangs_sets_only_its_session_aside(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    add = DigestBuilder.add

    def hanging(self: DigestBuilder, rows: Any) -> Any:
        if any("trouble" in (row.summary or "") for row in rows):
            swallow()
        return add(self, rows)

    monkeypatch.setattr(DigestBuilder, "add", hanging)
    report = memory.sweep()
    assert (report.sessions_failed, report.digests_written, report.digests_failed) == (0, 2, 1)
    bad = memory.row("claude:bad")
    assert (bad.record_count, bad.failure) == (1, "TooMuchError: it took longer than 1 s; see sweep.session_seconds")


def test_a_worker_that_answers_to_nothing_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf() -> None:
        import signal

        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(60)

    monkeypatch.setattr(workers, "IN_PLACE_BYTES", 0)
    monkeypatch.setattr(workers, "GRACE_S", 0.5)
    monkeypatch.setattr(workers, "_context", lambda: multiprocessing.get_context("fork"))
    memory = Memory(tmp_path, {"HELIX_SWEEP_SESSION_SECONDS": "1"})
    memory.write("bad", prompt("p1", "10:00:00", "this one is trouble"))
    memory.write("good", *conversation(1))
    plant(monkeypatch, deaf)
    report = memory.sweep()
    assert [why.partition(";")[0] for _, why in report.problems] == ["TooMuchError: it took longer than 1 s"]
    assert (report.digests_written, report.digests_failed) == (1, 1)
    assert memory.row("claude:bad").record_count == 1
    memory.close()


def test_time_grows_with_the_bytes() -> None:
    task = IngestTask(session_uid="claude:a", flavor="claude", generation=1, files=(), weight=192 * MIB)
    assert workers.seconds_for(task, Limits(seconds=10)) == 40


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_a_killed_sweep_leaves_no_worker_behind(method: str) -> None:
    code = (
        "import multiprocessing, os, time\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from helix_assets.sweep import workers\n"
        "if __name__ == '__main__':\n"
        f"    pool = ProcessPoolExecutor(2, multiprocessing.get_context({method!r}), workers._set_up, (None,))\n"
        "    print(pool.submit(os.getpid).result(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    sweep = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert sweep.stdout is not None
    worker = int(sweep.stdout.readline())
    sweep.kill()
    sweep.wait()
    sweep.stdout.close()
    assert await_end(worker, 30)


def await_end(pid: int, seconds: float) -> bool:
    """Whether the process ends in time; one that nobody has buried yet has ended too."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False
