"""Product against a generator's truth.json, session by session and field by field.

    python bench/compare_truth.py TRUTH.json SESSIONS.json [--home HOME] [--export ALL.jsonl]

SESSIONS.json is from `helix export --sessions --out`, ALL.jsonl from `helix export --out`: it shows API errors, and
whether any planted secret is left. Understands the truth file of the reference generator (a list of sessions) and of
`helix demo` (a mapping by uid). Prints how many sessions agree per field and the first disagreements. Exits 1 if a
field falls below its bar, a session is missing or one too many, or a secret is left. A missing value is never 0.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

EXACT, TESTS, NEARLY, OUTCOMES = 1.0, 0.995, 0.99, 0.95
EARLY_S, LATE_S = 300.0, 2.0
"""The reference generator dates a session by its plan, which begins before its first line and ends with its last."""
_OF_DEMO = (
    "parent_uid", "files", "tool_calls", "tool_calls_subagent", "tool_denied", "assistant_messages",
    "assistant_messages_subagent", "compactions",
)  # fmt: skip
"""Its other figures mean something else: a call without a result is cancelled there, a torn last line unparsed."""
Json = dict[str, Any]


class Expected(NamedTuple):
    """A field of a truth session, with the share of sessions that must agree. `value` may be a range or a time."""

    name: str
    value: Any
    bar: float


class Between(NamedTuple):
    """A whole number in this range."""

    least: int
    most: int


class Near(NamedTuple):
    """A time, as text, at most so many seconds earlier or later."""

    time: str
    earlier_s: float
    later_s: float


def expected_of(session: Json) -> Iterator[Expected]:
    """Fields of a truth session."""
    tokens = session["tokens"]
    for name in ("input", "output", "cache_read"):
        yield Expected(f"tokens.{name}", tokens[name], EXACT)
    yield Expected("tokens.cache_write", tokens.get("cache_creation", tokens.get("cache_write")), EXACT)
    if "tokens_sidechain" in session:
        yield Expected("tokens_subagent.output", session["tokens_sidechain"]["output"], EXACT)
    yield Expected("tools", session.get("tool_counts", session.get("tools")), EXACT)
    yield Expected("user_prompts", session["user_prompts"], EXACT)
    yield Expected("interrupts", session["interrupts"], EXACT)
    yield Expected("tool_errors", session["tool_errors"], NEARLY)
    for name, bar in (("api_errors", EXACT), ("retries", NEARLY)):
        if name in session:
            yield Expected(name, session[name], bar)
    if isinstance(session.get("edits"), dict):
        for name in ("count", "lines_added", "lines_removed"):
            yield Expected(f"edits.{name}", session["edits"][name], NEARLY)
    if isinstance(session.get("test_runs"), list):
        # in no order: parallel calls and subagents end in another order than they begin
        yield Expected("tests", sorted(map(_brief, session["test_runs"])), TESTS)
    if session.get("outcome"):
        yield Expected("outcome", session["outcome"], OUTCOMES)
    yield from _identity_of(session)
    if "uid" in session:  # the demo's figures have the names of the export
        yield from (Expected(name, session[name], EXACT) for name in _OF_DEMO if name in session)


def _identity_of(session: Json) -> Iterator[Expected]:
    """What names, dates and counts a session; of one with nothing but notes of the program no line says the first."""
    copied = session.get("copied_records", 0)
    if session.get("flavor") == "claude" and copied:  # copied records without an id count again
        yield Expected("records", Between(session["records"] - copied, session["records"] - 1), EXACT)
    else:
        yield Expected("records", session["records"], EXACT)
    if not (session["user_prompts"] or session.get("api_messages", 1)):
        return
    yield Expected("models", sorted(session["models"]), EXACT)
    yield Expected("cwd", session["cwd"], EXACT)
    yield Expected("git_branch", session["git_branch"], EXACT)
    early, late = (0.0, 0.0) if "uid" in session else (LATE_S, EARLY_S)
    for name, before, after in (("started_at", early, late), ("ended_at", early and LATE_S, early and LATE_S)):
        if session.get(name):
            yield Expected(name, Near(session[name], before, after), EXACT)


def agrees(got: Any, wanted: Any) -> bool:
    """Whether the product's value is the expected one; a missing one never is, unless it is expected."""
    if isinstance(wanted, Between):
        return isinstance(got, int) and wanted.least <= got <= wanted.most
    if isinstance(wanted, Near):
        if not isinstance(got, str):
            return False
        late = (datetime.fromisoformat(got) - datetime.fromisoformat(wanted.time)).total_seconds()
        return -wanted.earlier_s <= late <= wanted.later_s
    return type(got) is type(wanted) and bool(got == wanted)


def product_of(session: Json, name: str) -> Any:
    """The product's value of a field, None where it exports none."""
    value: Any = session
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, list):
        return sorted(map(_brief, value)) if name == "tests" else sorted(value)
    return value


def _brief(run: Json) -> str:
    """What the truth says about a test run, in the product's words."""
    framework = {"cargo": "cargo test", "go": "go test"}.get(run["framework"], run["framework"])
    counts = " ".join(f"{word} {run[word]}" for word in ("passed", "failed", "skipped"))
    return f"{framework}: {counts} {'ok' if run['success'] else 'failed'}"


def secrets_of(truth: Json) -> dict[str, str]:
    """What must not be in an export, with where it was planted: secrets, and the baits in files that are never read."""
    listed = truth["sessions"]
    sessions = listed.values() if isinstance(listed, dict) else listed
    found = {secret["value"]: f"{secret['kind']} of {secret['uid']}" for secret in truth.get("secrets", ())}
    for session in sessions:
        for secret in session.get("secrets", ()):
            found[secret.get("probe", secret["value"])] = f"{secret['kind']} of {session['session_uid']}"
    return found | {bait["value"]: f"bait in {bait['path']}" for bait in truth.get("forbidden", ())}


def decoys_of(truth: Json) -> dict[str, str]:
    """What looks like a secret and must be left, with the session that shows it."""
    if isinstance(truth["sessions"], dict):
        return {}
    return {
        decoy["value"]: f"{decoy['kind']} of {session['session_uid']}"
        for session in truth["sessions"]
        for decoy in session.get("decoys", ())
    }


def read_export(path: Path, made: dict[str, Json], truth: Json) -> tuple[list[str], list[str]]:
    """Add each session's API errors from the whole export; the secrets that it contains, and the decoys it lacks."""
    errors: Counter[str] = Counter()
    secrets, decoys = secrets_of(truth), decoys_of(truth)
    leaked: dict[str, str] = {}
    with path.open("rb") as lines:
        for data in lines:
            row = json.loads(data)
            text = data.decode("utf-8", "replace") + str(row.get("raw", ""))
            leaked |= {value: where for value, where in secrets.items() if _is_in(value, text)}
            for value in [value for value in decoys if _is_in(value, text)]:
                del decoys[value]
            errors[row["session_uid"]] += row.get("kind") == "error" and row.get("detail") == {"error": "api"}
    for uid, session in made.items():
        session["api_errors"] = errors[uid]
    return sorted(leaked.values()), sorted(decoys.values())


def _is_in(value: str, text: str) -> bool:
    return value in text or json.dumps(value)[1:-1] in text


def queued_prompts(home: Path, wanted: dict[str, Json]) -> Counter[str]:
    """Prompts typed while Claude worked, by session: lines that the reference generator plants and does not count.

    Those in the history that a session was resumed from are not its own.
    """
    counts: Counter[str] = Counter()
    for path in home.glob("claude/projects/*/*.jsonl"):
        uid = f"claude:{path.stem}"
        copied = wanted.get(uid, {}).get("copied_records", 0)
        for line in path.read_bytes().split(b"\n")[copied:]:
            if b'"queued_command"' in line and json.loads(line)["attachment"].get("commandMode", "prompt") == "prompt":
                counts[uid] += 1
    return counts


class Comparison:
    """How many sessions agree, by field and agent, and what differs."""

    def __init__(self, queued: Mapping[str, int]) -> None:
        self._queued = queued
        self._agree: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
        self._bars: dict[str, float] = {}
        self.wrong: list[str] = []
        self.explained = 0

    def add(self, uid: str, wanted: Json, made: Json, *, without: frozenset[str]) -> None:
        """Compare one session, apart from the fields that nothing was read for."""
        for name, value, bar in expected_of(wanted):
            if name in without:
                continue
            got = product_of(made, name)
            cell = self._agree[name, uid.partition(":")[0]]
            cell[1] += 1
            self._bars[name] = bar
            queued = self._queued.get(uid, 0)
            is_queued = name == "user_prompts" and bool(queued) and got == value + queued
            self.explained += is_queued
            if agrees(got, value) or is_queued:
                cell[0] += 1
            else:
                self.wrong.append(f"{uid} {name}: truth {value}, product {got}")

    def show(self) -> bool:
        """Print the table; whether every field reaches its bar."""
        good = True
        for (name, flavor), (right, of) in sorted(self._agree.items()):
            below = right < self._bars[name] * of
            good &= not below
            mark = f"  below {self._bars[name]}" if below else ""
            print(f"{name:26}{flavor:8}{right:>6} of {of:<6}{right / of:.4f}{mark}")
        return good


def main() -> int:
    """Compare and report; 0 when every field reaches its bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("truth", type=Path)
    parser.add_argument("sessions", type=Path)
    parser.add_argument("--home", type=Path, help="The logs: prompts that the truth leaves out are looked up in them.")
    parser.add_argument("--export", type=Path, help="The whole export: secrets and API errors are looked up in it.")
    parser.add_argument("--worst", type=int, default=12)
    options = parser.parse_args()
    truth = json.loads(options.truth.read_bytes())
    listed = truth["sessions"]
    wanted = listed if isinstance(listed, dict) else {s["session_uid"]: s for s in listed}
    made = json.loads(options.sessions.read_bytes())
    leaked, lost = read_export(options.export, made, truth) if options.export else ([], [])
    found = Comparison(queued_prompts(options.home, wanted) if options.home else {})
    for uid in sorted(wanted.keys() & made.keys()):
        found.add(uid, wanted[uid], made[uid], without=frozenset() if options.export else frozenset({"api_errors"}))
    good = found.show()
    if options.home:
        print(f"sessions whose prompts differ by exactly their attachment/queued_command lines: {found.explained}")
    missing, extra = sorted(wanted.keys() - made.keys()), sorted(made.keys() - wanted.keys())
    print(f"missing {len(missing)}: {missing[:5]}\nextra {len(extra)}: {extra[:5]}")
    if options.export:
        print(f"secrets left {len(leaked)} of {len(secrets_of(truth))}: {leaked[:5]}")
        print(f"decoys lost {len(lost)} of {len(decoys_of(truth))}: {lost[:5]}")
    else:
        print("not compared without --export: API errors, secrets")
    for text in sorted(found.wrong)[: options.worst]:
        print("  ", text[:300])
    return int(not good or bool(missing or extra or leaked))


if __name__ == "__main__":
    sys.exit(main())
