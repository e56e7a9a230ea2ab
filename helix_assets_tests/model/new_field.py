"""A program for a copy of the package whose rows and calls have one more text, `remark`: what the copy makes of it.

It prints what each reader shows before the redaction rules changed and once a sweep used the new ones, and what is
stored then. `test_fields` makes the copy and runs this with it first on the path.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pyarrow.parquet as pq

from helix_assets import Memory as Reader
from helix_assets.ask.search import Finder
from helix_assets.ask.sql import ask
from helix_assets.cli.main import run
from helix_assets.defs.columns import event_schema
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets.prove.verify_secrets import surviving_secrets
from helix_assets.store.parquet import SCHEMA
from helix_assets_tests.home import Memory, call, prompt
from helix_assets_tests.repository.test_field_tables import facts_page, sql_page
from helix_assets_tests.sweep.test_rescan import RULES, WORD, with_new_rules

EVERYTHING = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=1 << 40, max_age_days=400, distilled_cap_bytes=1 << 40)


def conversation(name: str, hour: int) -> list[bytes]:
    return [
        prompt(f"p{name}", f"{hour}:00:00", f"okapi {WORD} please"),
        call(f"c{name}", f"{hour}:00:01", "Bash", f"toolu_{name}", command=f"echo {WORD}"),
        call(f"d{name}", f"{hour}:00:02", f"mcp__{WORD}__get", f"toolu_d{name}", path="zebra"),
    ]


def fill(memory: Memory) -> None:
    """A session with its log, one that was evicted, and one that grew after that and whose log is gone."""
    memory.write("evicted", *conversation("a", 10))
    gone = memory.write("gone", *conversation("b", 11))
    memory.sweep()
    evict.apply(memory.store, clock=lambda: memory.now, policy=EVERYTHING)
    memory.write("gone", *conversation("c", 12), append=True)
    memory.write("whole", *conversation("d", 13))
    memory.sweep()
    gone.unlink()


def printed(*command: str) -> str:
    with redirect_stdout(TextIOWrapper(BytesIO())) as out:
        assert run(list(command)) == 0
    out.seek(0)
    return out.read()


def read() -> str:
    with Reader() as memory:
        return repr([memory.events().fetchall(), memory.facts("tool_calls").fetchall()])


def shown(memory: Memory) -> dict[str, str]:
    """What each reader shows."""
    store = memory.store
    readers: dict[str, Callable[[], str]] = {
        "sql: events": lambda: repr(ask(store, "select * from events").rows),
        "sql: records": lambda: repr(ask(store, "select * from records").rows),
        "sql: tool_calls": lambda: repr(ask(store, "select * from tool_calls").rows),
        "export": lambda: memory.exported().decode(),
        "show": lambda: printed("show", "claude:whole", "--json"),
        "show --payload": lambda: printed("show", "claude:whole", "--payload", "0"),
        "search": lambda: repr([Finder(store).find(word) for word in ("okapi", "zebra")]),
        "Memory": read,
    }
    return {name: reader() for name, reader in readers.items()}


def stored(memory: Memory) -> dict[str, str]:
    """What the files hold, by session; facts of all in one."""
    files = [pq.read_table(path) for path in sorted((memory.folder / "data").rglob("*.parquet"))]
    found: dict[str, str] = {}
    for table in files:
        kind = "rows" if "seq" in table.column_names else "facts"
        for row in table.to_pylist():
            found[f"{kind} of {row['session_uid']}"] = found.get(f"{kind} of {row['session_uid']}", "") + repr(row)
    return found


def main(folder: Path) -> None:
    memory = Memory(folder / "memory", {"HELIX_AGENTS": "claude"})
    os.environ.update(memory.variables)
    fill(memory)
    told: dict[str, object] = {
        "schema": SCHEMA.names,
        "dagster": {column.name: column.description for column in event_schema().columns},
        "docs": sql_page(folder / "page") + facts_page(),
        "before": shown(memory),
    }
    os.environ["HELIX_REDACTION_RULES"] = RULES
    store = with_new_rules(memory)
    told["survivors"] = len(surviving_secrets(store))
    memory.sweep()
    told |= {"after": shown(memory), "stored": stored(memory)}
    told["left"] = [*map(repr, surviving_secrets(store)), *map(repr, verify(store))]
    memory.close()
    print(json.dumps(told))  # noqa: T201 - the tests read it


if __name__ == "__main__":
    main(Path(sys.argv[1]))
