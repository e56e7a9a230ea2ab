"""Every setting, once: its name, its HELIX_* variable, its kind and its default.

A section of helix.toml is a class here. Not here: how the values are found and checked (`load`).
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Any, Literal

from helix_assets.agents import AGENTS, PLUMBING, SPECS, spec_of, worktrees_of
from helix_assets.derive.places import PlaceRules
from helix_assets.settings.values import (
    AGENT_LIST,
    AGENT_ROOTS,
    COUNT,
    NAMES,
    PATTERNS,
    PORT,
    PRICES,
    RULES,
    SIZE,
    TEXT,
    TEXTS,
    YES,
    Kind,
    RedactionRule,
    one_of,
)

MIB = 1024**2
GIB = 1024**3
CADENCE = one_of("daily", "weekly", "on-hook")
BACKUP_SCHEDULE = one_of("daily", "off")
ON_OFF = one_of("on", "off")


def setting(env: str, kind: Kind, default: object) -> Any:
    """A dataclass field with its variable and kind; a callable default is called at load."""
    factory: Callable[[], object] = default if callable(default) else lambda: default
    return field(default_factory=factory, metadata={"env": env, "kind": kind})


def _default_workers() -> int:
    return min(os.cpu_count() or 1, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSettings:
    """[retention], also accepted as [session_memory.retention]: when raw bytes may go."""

    raw_soft_cap_bytes: int = setting("HELIX_RAW_SOFT_CAP_BYTES", SIZE, 4 * GIB)
    raw_hard_cap_bytes: int = setting("HELIX_RAW_HARD_CAP_BYTES", SIZE, 6 * GIB)
    raw_max_age_days: int = setting("HELIX_RAW_MAX_AGE_DAYS", COUNT, 45)
    distilled_cap_bytes: int = setting("HELIX_DISTILLED_CAP_BYTES", SIZE, GIB)
    cadence: Literal["daily", "weekly", "on-hook"] = setting("HELIX_CADENCE", CADENCE, "daily")


class SourceSettings:
    """[sources]: which agents are read, and folders of theirs in addition to the usual ones.

    `<agent>_roots` and `<agent>_cleanup_days` come from the agents' specs. The latter exists for an agent that deletes
    old logs: set it if you changed that in the agent's own settings. `other_roots` has the folder of each agent whose
    adapter comes from another package.
    """

    __slots__ = ()
    agents: tuple[str, ...]
    other_roots: Mapping[str, str]

    def roots_of(self, agent: str) -> tuple[str, ...]:
        """The folders that the user adds to an agent's usual ones."""
        if agent in self.other_roots:
            return (self.other_roots[agent],)
        found: tuple[str, ...] = getattr(self, f"{agent}_roots", ())
        return found

    def cleanup_days_of(self, agent: str) -> int | None:
        """After how many days an agent deletes a log; None for one that keeps them."""
        found: int | None = getattr(self, f"{agent}_cleanup_days", spec_of(agent).cleanup_days)
        return found


def _source_settings() -> type[SourceSettings]:
    """The section with the settings of each agent, as if they were written out."""
    days = [(spec.flavor, spec.cleanup_days) for spec in SPECS if spec.cleanup_days is not None]
    table = [
        ("agents", tuple[str, ...], setting("HELIX_AGENTS", AGENT_LIST, AGENTS)),
        *((f"{a}_roots", tuple[str, ...], setting(f"HELIX_{a.upper()}_ROOTS", TEXTS, ())) for a in AGENTS),
        *((f"{a}_cleanup_days", int, setting(f"HELIX_{a.upper()}_CLEANUP_DAYS", COUNT, n)) for a, n in days),
        ("other_roots", Mapping[str, str], setting("HELIX_OTHER_ROOTS", AGENT_ROOTS, dict)),
    ]
    options = {"frozen": True, "slots": True, "kw_only": True}
    return make_dataclass("Sources", table, bases=(SourceSettings,), namespace={"__module__": __name__}, **options)


Sources = _source_settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExclusionSettings:
    """[exclude]: what is never read. Repositories by name or glob, paths of working folders by glob, agents by name."""

    repos: tuple[str, ...] = setting("HELIX_EXCLUDE_REPOS", TEXTS, ())
    paths: tuple[str, ...] = setting("HELIX_EXCLUDE_PATHS", TEXTS, ())
    agents: tuple[str, ...] = setting("HELIX_EXCLUDE_AGENTS", AGENT_LIST, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class RepoSettings:
    """[repos]: `paths` names the repository of a path prefix or glob, `domains` the domain of a repository."""

    paths: Mapping[str, str] = setting("HELIX_REPO_PATHS", NAMES, dict)
    domains: Mapping[str, str] = setting("HELIX_REPO_DOMAINS", NAMES, dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSettings:
    """[tasks]: regular expressions that find a task reference in a branch name or a prompt."""

    patterns: tuple[str, ...] = setting("HELIX_TASK_PATTERNS", PATTERNS, (r"[A-Z][A-Z0-9]*-WP-\d{4}(?:-T\d+)?",))


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactionSettings:
    """[redaction]: rules in addition to the built-in ones, and texts that are known to be harmless."""

    rules: tuple[RedactionRule, ...] = setting("HELIX_REDACTION_RULES", RULES, ())
    allow: tuple[str, ...] = setting("HELIX_REDACTION_ALLOW", TEXTS, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """[web]: where the UI listens on the loopback address."""

    port: int = setting("HELIX_WEB_PORT", PORT, 3000)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    """[up]: whether Dagster's server takes in small news itself. With false it starts a run for every change."""

    in_process: bool = setting("HELIX_UP_IN_PROCESS", YES, True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepSettings:
    """[sweep]: how much is read at once, what one session may take, and when a silent session counts as over.

    `session_seconds` is the time limit of a small session; one of 64 MiB gets twice as long, and so on. The memory of a
    worker is limited on Linux only. An agent's database larger than `database_bytes` is not read. `rest_minutes` has no
    effect; it is accepted because earlier versions had it.
    """

    workers: int = setting("HELIX_SWEEP_WORKERS", COUNT, _default_workers)
    batch_bytes: int = setting("HELIX_SWEEP_BATCH_BYTES", SIZE, 64 * MIB)
    session_seconds: int = setting("HELIX_SWEEP_SESSION_SECONDS", COUNT, 300)
    worker_memory_bytes: int = setting("HELIX_SWEEP_WORKER_MEMORY_BYTES", SIZE, 4 * GIB)
    database_bytes: int = setting("HELIX_SWEEP_DATABASE_BYTES", SIZE, 2 * GIB)
    idle_minutes: int = setting("HELIX_IDLE_MINUTES", COUNT, 30)
    rest_minutes: int = setting("HELIX_SWEEP_REST_MINUTES", COUNT, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSettings:
    """[backup]: the folder of copies (empty: `backup` in the data folder), how many to keep, and when to make them."""

    dir: str = setting("HELIX_BACKUP_DIR", TEXT, "")
    keep: int = setting("HELIX_BACKUP_KEEP", COUNT, 5)
    schedule: Literal["daily", "off"] = setting("HELIX_BACKUP_SCHEDULE", BACKUP_SCHEDULE, "daily")


@dataclass(frozen=True, slots=True, kw_only=True)
class KaizenSettings:
    """[kaizen]: folders of projects that record metrics; globs of plumbing tools, which replace the built-in ones."""

    projects: tuple[str, ...] = setting("HELIX_KAIZEN_PROJECTS", TEXTS, ())
    infra_tools: tuple[str, ...] = setting("HELIX_INFRA_TOOLS", TEXTS, PLUMBING)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSettings:
    """[search]: whether to keep an index of all words."""

    index: Literal["on", "off"] = setting("HELIX_SEARCH_INDEX", ON_OFF, "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that a run needs to know about its environment; read once, passed on, never changed."""

    data_dir: Path
    config_file: Path | None = None
    rules_stamp: str = ""
    roots: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    sources: SourceSettings = field(default_factory=Sources)
    exclude: ExclusionSettings = field(default_factory=ExclusionSettings)
    repos: RepoSettings = field(default_factory=RepoSettings)
    tasks: TaskSettings = field(default_factory=TaskSettings)
    redaction: RedactionSettings = field(default_factory=RedactionSettings)
    web: WebSettings = field(default_factory=WebSettings)
    up: UpSettings = field(default_factory=UpSettings)
    sweep: SweepSettings = field(default_factory=SweepSettings)
    backup: BackupSettings = field(default_factory=BackupSettings)
    kaizen: KaizenSettings = field(default_factory=KaizenSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    prices: Mapping[str, Mapping[str, float]] = setting("HELIX_PRICES", PRICES, dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each setting came from, by dotted name; all others are defaults."""

    @property
    def catalog_path(self) -> Path:
        """The SQLite catalog."""
        return self.data_dir / "helix.db"

    @property
    def backup_dir(self) -> Path:
        """The folder of the copies."""
        return Path(self.backup.dir) if self.backup.dir else self.data_dir / "backup"

    @property
    def places(self) -> PlaceRules:
        """How to recognize repositories, domains and task references: the user's map and the agents' worktrees."""
        worktrees = worktrees_of(*self.sources.other_roots)
        return PlaceRules(self.repos.paths, self.repos.domains, self.tasks.patterns, worktrees)

    @property
    def enabled_agents(self) -> tuple[str, ...]:
        """The agents whose logs are read: those of [sources] that [exclude] does not name."""
        agents = dict.fromkeys([*self.sources.agents, *self.sources.other_roots])
        return tuple(agent for agent in agents if agent not in self.exclude.agents)


SECTIONS: Mapping[str, type] = {
    "retention": RetentionSettings,
    "sources": Sources,
    "exclude": ExclusionSettings,
    "repos": RepoSettings,
    "tasks": TaskSettings,
    "redaction": RedactionSettings,
    "web": WebSettings,
    "up": UpSettings,
    "sweep": SweepSettings,
    "backup": BackupSettings,
    "kaizen": KaizenSettings,
    "search": SearchSettings,
}


@dataclass(frozen=True, slots=True)
class Known:
    """What the loader needs to know about a setting: its key in helix.toml, its variable, the kind of its value."""

    key: tuple[str, ...]
    env: str
    kind: Kind

    @property
    def name(self) -> str:
        """The dotted name, as `helix config` prints it."""
        return ".".join(self.key)


def known_settings() -> dict[tuple[str, ...], Known]:
    """Every setting by its key, in the order of this module."""
    found = [Known(("data_dir",), "HELIX_DATA_DIR", TEXT)]
    for section, model in SECTIONS.items():
        found += [Known((section, f.name), f.metadata["env"], f.metadata["kind"]) for f in fields(model)]
    found += [Known((f.name,), f.metadata["env"], f.metadata["kind"]) for f in fields(Settings) if f.metadata]
    return {item.key: item for item in found}
