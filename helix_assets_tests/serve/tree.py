"""A real tree of `helix up` for tests: its own home folder, a toy code location, a free port."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx

CHECKOUT = Path(__file__).resolve().parents[2]
START_SECONDS = 60

_TOY = """
import time
import dagster as dg

@dg.asset
def toy():
    return dg.MaterializeResult(metadata={"note": dg.MetadataValue.text("toy-metadata-text")})

@dg.asset
def slow():
    time.sleep(300)

defs = dg.Definitions(assets=[toy, slow], executor=dg.in_process_executor)
"""
_SERVE = """
import json
import sys
from pathlib import Path
from helix_assets.model.errors import HelixError
from helix_assets.serve.up import ServeOptions, serve
options = ServeOptions(port=int(sys.argv[2]), **json.loads(sys.argv[3]))
try:
    serve(Path(sys.argv[1]), options, lambda text: print(text, flush=True))
except HelixError as exc:
    print(exc, file=sys.stderr)
    sys.exit(exc.exit_code)
"""


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def wait_until(is_so: Callable[[], bool], seconds: float = START_SECONDS) -> bool:
    """Ask again and again until it is so; False when the time is up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_so():
            return True
        time.sleep(0.1)
    return False


class Tree:
    """`helix up` without the first sweep, on a toy code location; start and end it as a person would."""

    def __init__(self, folder: Path, definitions: Mapping[str, str] = {}, options: Mapping[str, object] = {}) -> None:
        module = next(iter(definitions), "toy_definitions")
        self.options = {"module": module, "server": "helix_assets.serve.process", **options}
        self.data_dir = folder / "data"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = folder / "output.txt"
        self.process: subprocess.Popen[bytes] | None = None
        modules = folder / "modules"
        modules.mkdir()
        for name, text in {"toy_definitions": _TOY, **definitions}.items():
            (modules / f"{name}.py").write_text(text)
        self.environment = environment(folder, modules)

    @property
    def home(self) -> Path:
        """DAGSTER_HOME of the tree."""
        return self.data_dir / "dagster"

    def start(self) -> None:
        """Start and wait until the UI answers."""
        command = [sys.executable, "-c", _SERVE, str(self.data_dir), str(self.port), json.dumps(self.options)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)
        assert wait_until(lambda: b"Dagster UI on" in self.output.read_bytes()), self.output.read_text()

    def end(self, number: signal.Signals) -> int:
        """Send a signal to the supervisor alone and wait for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(START_SECONDS)

    def ask(self, query: str, variables: Mapping[str, Any] | None = None) -> Any:
        """A GraphQL request as the UI's own page sends it."""
        body = {"query": query, "variables": variables or {}}
        headers = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"}
        response = httpx.post(f"{self.url}/graphql", json=body, headers=headers, timeout=30)
        assert response.status_code == 200, response.text
        return response.json()["data"]

    def launch(self, asset: str, **tags: str) -> str:
        """Materialize an asset the way the UI does and return the run id."""
        answer = self.ask(LAUNCH, {"params": launch_params(asset, **tags)})["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", json.dumps(answer)
        return str(answer["run"]["id"])

    def status(self, run_id: str) -> str:
        """Status of a run, such as SUCCESS."""
        return str(
            self.ask("query($id: ID!){runOrError(runId:$id){... on Run{status}}}", {"id": run_id})["runOrError"][
                "status"
            ]
        )


LAUNCH = """mutation($params: ExecutionParams!){launchRun(executionParams:$params){__typename
  ... on LaunchRunSuccess{run{id}} ... on PythonError{message} ... on UnauthorizedError{message}}}"""


def launch_params(asset: str, **tags: str) -> dict[str, Any]:
    """What the UI sends to materialize one asset."""
    return {
        "selector": {
            "repositoryLocationName": "helix_assets",
            "repositoryName": "__repository__",
            "jobName": "__ASSET_JOB",
            "assetSelection": [{"path": [asset]}],
        },
        "mode": "default",
        "executionMetadata": {"tags": [{"key": f"dagster/{key}", "value": value} for key, value in tags.items()]},
    }


def environment(folder: Path, modules: Path | None = None) -> dict[str, str]:
    """An environment with nothing of the person's who runs the tests."""
    paths = [str(path) for path in (modules, CHECKOUT) if path]
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder / "home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
        "PYTHONPATH": os.pathsep.join(paths),
    }
