"""What holds for every test: a home of its own, and no way to the real one.

The home folder of whoever runs the tests holds real agent logs. Two guards keep the tests away from it:

1. The environment of each test points HOME, the XDG folders, the agents' own variables and HELIX_DATA_DIR into a
   temporary folder. HELIX_CONFIG names an empty file there, so that a helix.toml of the checkout has no say. Child
   processes inherit all of this.
2. An audit hook sees each file opened, listed, made, moved or removed in this process while a test runs. A path in the
   real home makes the call raise and the test fail, even when the code under test swallows the exception. What may be
   touched there: the Python installation, the import path, this checkout with the `shared` folder beside it, and the
   temporary folder, for all of these may themselves lie in the home. A bare stat() raises no audit event.

A connection to SQLite that a test leaves open is an error, as Python 3.13 and later make it.

Tests start with the usual umask 022, so that code which forgets its own 077 is found out.
"""

import os
import pwd
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from traceback import walk_stack
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from helix_assets.settings.folders import agent_variables

CHECKOUT = Path(__file__).resolve().parents[1]
SHARED = CHECKOUT.parent / "shared"
REAL_HOME = os.path.realpath(pwd.getpwuid(os.getuid()).pw_dir)
_WATCHED = frozenset(
    ["open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.scandir", "sqlite3.connect"]
)

# By day a property meets few examples, others each time; `./check nightly` takes its time over many, as over the gates.
NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
settings.register_profile("day", max_examples=30, deadline=None)
settings.register_profile("nightly", max_examples=500, deadline=None)
settings.load_profile("nightly" if NIGHTLY else "day")
SWEEPING = settings(max_examples=50 if NIGHTLY else 5, suppress_health_check=[HealthCheck.function_scoped_fixture])
"""For properties whose every example sweeps."""


class RealHomeTouchedError(AssertionError):
    """A test reached for the real home folder."""


class HomeGuard:
    """The audit hook; hooks cannot be removed, so it is switched on for the time of a test."""

    def __init__(self) -> None:
        self.on = False
        self.touched: list[str] = []
        self.allowed = _allowed_folders()

    def __call__(self, event: str, args: tuple[object, ...]) -> None:
        if not self.on or event not in _WATCHED:
            return
        for path in args[:2] if event == "os.rename" else args[:1]:
            if isinstance(path, str | bytes | os.PathLike) and self._is_forbidden(os.fsdecode(path)):
                self.touched.append(f"{event} {os.fsdecode(path)}")
                raise RealHomeTouchedError(f"{event} touches the real home folder: {os.fsdecode(path)}")

    def _is_forbidden(self, path: str) -> bool:
        path = os.path.abspath(path)
        if not _is_within(path, REAL_HOME):
            return False
        return not any(_is_within(path, folder) for folder in self.allowed)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _allowed_folders() -> frozenset[str]:
    folders = [sys.prefix, sys.base_prefix, sys.exec_prefix, tempfile.gettempdir(), *sys.path]
    folders += [str(CHECKOUT), str(SHARED)]
    both = {spelling(folder) for folder in folders if folder for spelling in (os.path.abspath, os.path.realpath)}
    return frozenset(folder for folder in both if not _is_within(REAL_HOME, folder))


_guard = HomeGuard()
if REAL_HOME != "/":
    sys.addaudithook(_guard)


def pytest_report_header() -> str:
    return f"reference corpus: {'found' if SHARED.is_dir() else 'missing, tests marked shared are skipped'}"


@cache
def _watched(kind: type[sqlite3.Connection]) -> type[sqlite3.Connection]:
    """Connections that warn, and so fail the test, if they were not closed when nobody needs them any longer."""

    class Watched(kind):  # type: ignore[misc, valid-type]
        def __init__(self, *arguments: Any, **more: Any) -> None:
            super().__init__(*arguments, **more)
            places = [f"{frame.f_code.co_filename}:{line}" for frame, line in islice(walk_stack(None), 12)]
            self.opened_in = [place for place in places if place.startswith(str(CHECKOUT / "helix"))]

        def __del__(self) -> None:
            try:
                self.total_changes  # noqa: B018 - raises if it is closed
            except sqlite3.ProgrammingError:
                return
            warnings.warn(
                f"unclosed database in {self!r}, opened in {self.opened_in}", ResourceWarning, stacklevel=1, source=self
            )

    return Watched


def _watching(
    *arguments: Any, factory: type[sqlite3.Connection] = sqlite3.Connection, **more: Any
) -> sqlite3.Connection:
    return _connect(*arguments, factory=_watched(factory), **more)


_connect = sqlite3.connect
if sys.version_info < (3, 13):
    sqlite3.connect = sqlite3.dbapi2.connect = _watching


class Together(LoadScopeScheduling):
    """Gives tests to processes one at a time, but those of a module that makes something for all of them together.

    So a tree of servers is started once. (xdist's own `loadgroup` does nothing with pytest 9.2.)
    """

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return path if 'scope="module"' in _source(path) else nodeid


@cache
def _source(path: str) -> str:
    return (CHECKOUT / path).read_text(encoding="utf-8")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together:
    return Together(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("servers"):
        missing = [program for program in marker.args if shutil.which(program) is None]
        is_wanted = item.config.option.markexpr == "servers"
        if missing:
            (pytest.fail if is_wanted else pytest.skip)(f"left out: there is no {', '.join(missing)} here")
    if item.get_closest_marker("shared") and not SHARED.is_dir():
        pytest.skip("the reference corpus ../shared is not beside this checkout")


@pytest.fixture
def shared() -> Path:
    """The folder of the reference corpus; for tests marked `shared`, which are skipped where it is missing."""
    return SHARED


@pytest.fixture(scope="session")
def tool_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache folder for all tests: matplotlib takes seconds to list the fonts anew."""
    return tmp_path_factory.mktemp("tool_cache")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, tool_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary home folder of this test; its `data` is the state, `.claude`, `.codex` and `.grok` the logs."""
    folder = tmp_path / "home"
    folder.mkdir()
    live_in(folder, tool_cache, monkeypatch)
    umask = os.umask(0o022)
    _guard.touched.clear()
    _guard.on = True
    yield folder
    _guard.on = False
    os.umask(umask)
    assert not _guard.touched, f"the real home folder was touched: {_guard.touched}"


def live_in(folder: Path, tool_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point all variables to a home folder; for fixtures that several tests share, too."""
    no_config = folder / "no-helix.toml"
    no_config.touch()
    for name in [name for name in os.environ if name.startswith(("HELIX_", "DAGSTER_"))]:
        monkeypatch.delenv(name)
    for name, value in {
        "HOME": folder,
        "XDG_CONFIG_HOME": folder / ".config",
        "XDG_DATA_HOME": folder / ".local" / "share",
        "XDG_STATE_HOME": folder / ".local" / "state",
        "XDG_CACHE_HOME": tool_cache,
        "MPLCONFIGDIR": tool_cache,
        **{variable: folder / f".{agent}" for agent, variable in agent_variables().items()},
        "HELIX_DATA_DIR": folder / "data",
        "HELIX_CONFIG": no_config,
    }.items():
        monkeypatch.setenv(name, str(value))
