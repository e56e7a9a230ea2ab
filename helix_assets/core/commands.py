"""What a shell command is for: the program it runs, and whether it runs tests.

Belongs here: reading command lines. Not here: reading what the commands print.
"""

from __future__ import annotations

import re

_WRAPPERS = {
    "sudo",
    "env",
    "time",
    "timeout",
    "nice",
    "nohup",
    "xargs",
    "command",
    "exec",
    "stdbuf",
    "uv",
    "poetry",
    "pipenv",
    "npx",
    "pnpm",
    "bunx",
    "rye",
    "hatch",
    "pdm",
}
_RUN_WORDS = {"run", "exec", "dlx"}
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_CHAIN = re.compile(r"&&|\|\||;|\n")
_SETUP = {"cd", "export", "source", ".", "set", "echo", "pushd", "popd", "true", "mkdir"}
_TESTS = (
    ("pytest", re.compile(r"\b(?:pytest|py\.test)\b")),
    ("unittest", re.compile(r"\bpython[\d.]*\s+-m\s+unittest\b")),
    ("jest", re.compile(r"\bjest\b|\breact-scripts\s+test\b")),
    ("vitest", re.compile(r"\bvitest\b")),
    ("mocha", re.compile(r"\bmocha\b")),
    ("playwright", re.compile(r"\bplaywright\s+test\b")),
    ("node:test", re.compile(r"\bnode\s+(?:\S+\s+)*--test\b")),
    ("npm test", re.compile(r"\b(?:npm|yarn|pnpm|bun)\s+(?:run\s+)?test\b")),
    ("go test", re.compile(r"\bgo\s+test\b")),
    ("cargo nextest", re.compile(r"\bcargo\s+nextest\b")),
    ("cargo test", re.compile(r"\bcargo\s+(?:\S+\s+)?test\b")),
    ("rspec", re.compile(r"\brspec\b")),
    ("minitest", re.compile(r"\b(?:rails|rake)\s+test\b")),
    ("phpunit", re.compile(r"\bphpunit\b")),
    ("maven", re.compile(r"\bmvnw?\b.*\b(?:test|verify)\b")),
    ("gradle", re.compile(r"\bgradlew?\b.*\b(?:test|check)\b")),
    ("dotnet test", re.compile(r"\bdotnet\s+test\b")),
    ("ctest", re.compile(r"\bctest\b")),
    ("tox", re.compile(r"\btox\b")),
    ("nox", re.compile(r"\bnox\b")),
    ("make", re.compile(r"\bmake\s+(?:\S+\s+)*(?:test|check)\b")),
)
_INSTALLS = re.compile(r"\b(?:install|add|uninstall|which|grep|rg|cat|sed|--version|git\s+commit)\b")


def program(command: str) -> str | None:
    """Name of the first program that does the work: set-up steps, assignments and wrappers are passed over."""
    for part in _CHAIN.split(command[:2000]):
        words = [w for w in part.strip().lstrip("({ ").split() if not _ASSIGNMENT.match(w)]
        while len(words) > 1 and words[0].rsplit("/", 1)[-1] in _WRAPPERS:
            words = words[1:]
            while len(words) > 1 and (words[0].startswith("-") or words[0] in _RUN_WORDS or words[0].isdigit()):
                words = words[1:]
        name = words[0].strip("\"'").rsplit("/", 1)[-1] if words else ""
        if name and name not in _SETUP:
            return name[:64]
    return None


def test_framework(command: str) -> str | None:
    """The test framework that the command runs, None when it runs no tests."""
    for part in _CHAIN.split(command[:4000]):
        if _INSTALLS.search(part):
            continue
        for name, pattern in _TESTS:
            if pattern.search(part):
                return name
    return None
