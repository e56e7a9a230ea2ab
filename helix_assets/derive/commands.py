"""What a shell command is for: the program it runs, and whether it runs tests.

Belongs here: reading command lines. Not here: reading what the commands print (`derive.tests`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_LOOKED_AT = 4000
# Agents run the same few commands again and again.
_REMEMBERED = 2048
_WRAPPERS = {
    "sudo", "env", "time", "timeout", "nice", "nohup", "xargs", "command", "exec", "stdbuf", "uv", "poetry", "pipenv",
    "npx", "pnpm", "bunx", "rye", "hatch", "pdm", "uvx", "xvfb-run", "caffeinate", "unbuffer", "dotenv", "pnpx",
    "bundle", "rtk", "mise", "direnv", "nix-shell",
}  # fmt: skip
_RUN_WORDS = {"run", "exec", "dlx", "--"}
# Options of wrappers that take the next word with them.
_VALUED = {
    "-u",
    "-n",
    "-I",
    "-s",
    "-k",
    "-p",
    "-C",
    "-P",
    "--with",
    "--package",
    "--project",
    "--directory",
    "--filter",
}
_KEYWORDS = {"if", "then", "else", "elif", "do", "while", "until", "!", "{"}
_SETUP = {"cd", "export", "source", ".", "set", "echo", "pushd", "popd", "true", "mkdir"}
_SHELLS = {"bash", "sh", "zsh", "dash"}
_CONTAINERS = {"docker", "docker-compose", "podman", "kubectl"}
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w{0,200}=")
_NUMBER = re.compile(r"\d+(?:\.\d+)?[smhd]?\Z")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*\Z")
_HERE_DOC = re.compile(r"<<-?[ \t]{0,4}([\"']?)(\w{1,60})\1[^\n]{0,1000}\n(?:.*?\n)??[ \t]{0,40}\2(?=\n|\Z)", re.S)
# Quoted text stays in its word; an unclosed quote counts as a letter.
_WORD = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|\\.|[^\s;&|()<>\"'\\]|[\"'\\])+|&&|\|\||[;&|\n()]|[<>]+&?", re.S)
_BREAKS = frozenset({"&&", "||", ";", "&", "|", "\n", "(", ")"})
_HINTS = (
    "test",
    "spec",
    "jest",
    "mocha",
    "ava",
    "jasmine",
    "tox",
    "nox",
    "check",
    "unit",
    "verify",
    "mvn",
    "gradle",
    "ninja",
    "rake",
)
_ASKS_ONLY = frozenset({"--version", "--help", "-h", "--collect-only", "--co", "--fixtures", "--markers", "--listTests",
                        "--list-tests", "--list", "-V"})  # fmt: skip
_WITHOUT_TESTS = frozenset({"-DskipTests", "-DskipTests=true", "-Dmaven.test.skip", "-Dmaven.test.skip=true"})
_TEST_SCRIPT = re.compile(r"(?:\A|[/_.-])(?:tests?|specs?|check|ci)(?:\Z|[_.-])|_tests?\Z")
_TEST_TARGET = re.compile(r"(?:\A|[:_-])(?:tests?|t|unit|e2e|spec|specs)(?:\Z|[:_-])")
_CHECK_TARGET = re.compile(r"(?:\A|[:_-])(?:check|ci|verify|all|coverage)(?:\Z|[:_-])")
_GRADLE_TASK = re.compile(r"(?:\A|:)(?:\w{0,60}[tT]est\w{0,60}|check)\Z")

SCRIPT = "script"
"""A command that may or may not run tests: only its output shows which."""


@lru_cache(_REMEMBERED)
def program(command: str) -> str | None:
    """Name of the first program that does the work: skips set-up steps, assignments and wrappers."""
    for wrapped in _commands(command):
        words = _unwrapped(wrapped)
        name = _base(words[0]) if words else ""
        if name and name not in _SETUP:
            return name[:64]
    return None


@lru_cache(_REMEMBERED)
def test_framework(command: str) -> str | None:
    """The test framework that the command runs, a wrapper such as "make" or "npm test", or `SCRIPT`.

    None if it does not run tests, also if it only names a framework: installs it, searches for it, asks its version.
    If there are several, the first that is certain.
    """
    start = command[:_LOOKED_AT].lower()
    if not any(hint in start for hint in _HINTS):
        return None
    perhaps = None
    for words in _commands(command):
        framework = _framework(_unwrapped(words))
        if framework and framework != SCRIPT:
            return framework
        perhaps = perhaps or framework
    return perhaps


def _commands(command: str) -> Iterator[list[str]]:
    """The simple commands of a command line as lists of words, without their redirections."""
    text = command[:_LOOKED_AT]
    if "<<" in text:
        text = _HERE_DOC.sub("", text)
    words: list[str] = []
    into_file = False
    for found in _WORD.finditer(text.replace("\\\n", " ")):
        word = found[0]
        if word in _BREAKS:
            if words:
                yield words
            words, into_file = [], False
        elif word[0] in "<>":
            if words and words[-1] in ("1", "2"):
                words.pop()
            into_file = True
        elif into_file:
            into_file = False
        else:
            words.append(word)
    if words:
        yield words


def _unwrapped(words: list[str]) -> list[str]:
    """The words from the program on: without assignments, shell keywords, wrappers and their options."""
    at, end = 0, 0 if words[0] in ("for", "case") else len(words)
    while at < end and (_ASSIGNMENT.match(words[at]) or words[at] in _KEYWORDS):
        at += 1
    while at < end - 1 and _base(words[at]) in _WRAPPERS and not _runs_a_script(words, at):
        at += 1
        while at < end - 1 and _belongs_to_wrapper(words[at]):
            at += 2 if words[at] in _VALUED else 1
    return words[at:end]


def _belongs_to_wrapper(word: str) -> bool:
    return word[0] == "-" or word in _RUN_WORDS or bool(_NUMBER.match(word) or _ASSIGNMENT.match(word))


def _runs_a_script(words: list[str], at: int) -> bool:
    """`pnpm test` and `hatch test` name a script of the project, not a program."""
    options = {place for place, word in enumerate(words, 1) if word in _VALUED}
    rest = [
        word
        for place, word in enumerate(words[at + 1 :], at + 1)
        if word[0] != "-" and word not in _RUN_WORDS and place not in options
    ]
    return (
        _base(words[at]) in ("pnpm", "hatch", "pdm", "mise") and bool(rest) and _TEST_TARGET.search(rest[0]) is not None
    )


def _base(word: str) -> str:
    return word.strip("\"'").replace("\\", "/").rsplit("/", 1)[-1]


def _framework(words: list[str]) -> str | None:
    if not words or not _ASKS_ONLY.isdisjoint(words) or not _WITHOUT_TESTS.isdisjoint(words):
        return None
    name = _base(words[0]).removesuffix(".cmd").removesuffix(".exe").removesuffix(".bat")
    rest = [word.strip("\"'") for word in words[1:]]
    if name in _SHELLS:
        return _of_shell(rest)
    if name in _CONTAINERS:
        return _of_container(rest)
    if _PYTHON.match(name):
        return _of_python(rest)
    if name in _BY_NAME:
        return _BY_NAME[name]
    if rest and rest[0] in _FETCHES:
        return None
    if name == "bun" and next((word for word in rest if word[:1] != "-"), "") == "test":
        return "bun test"
    if name in ("gradle", "gradlew"):
        rest = [word for place, word in enumerate(rest) if rest[place - 1 : place] not in (["-x"], ["--exclude-task"])]
    for names, words_of, framework in _BY_WORD:
        if name in names:
            return framework if any(words_of.search(word) for word in rest if word[:1] != "-") else _perhaps(name, rest)
    if name == "node":
        return "node:test" if "--test" in rest else _script(rest)
    if name in ("coverage", "ruby", "php", "deno", "tsx", "ts-node"):
        return _of_interpreter(name, rest)
    return SCRIPT if _is_path(words[0]) and _TEST_SCRIPT.search(name) else None


_BY_NAME = {
    "pytest": "pytest", "py.test": "pytest", "pytest-3": "pytest", "ptw": "pytest", "unittest": "unittest",
    "jest": "jest", "vitest": "vitest", "mocha": "mocha", "nyc": "mocha", "c8": "mocha", "gotestsum": "go test",
    "rspec": "rspec", "phpunit": "phpunit", "pest": "phpunit", "paratest": "phpunit", "ctest": "ctest", "tox": "tox",
    "nox": "nox", "cargo-nextest": "cargo nextest", "ava": "ava", "jasmine": "jasmine",
}  # fmt: skip
_EXACTLY_TEST = re.compile(r"\A(?:test|t)\Z")
_FETCHES = {"install", "i", "add", "ci", "remove", "uninstall", "create", "init", "view", "info", "require", "publish"}
# Programs that run tests only with a certain word; the first entry that names the program decides.
_BY_WORD: tuple[tuple[frozenset[str], re.Pattern[str], str], ...] = (
    (frozenset({"npm", "yarn", "pnpm", "bun", "lerna", "turbo", "nx"}), _TEST_TARGET, "npm test"),
    (frozenset({"go"}), re.compile(r"\Atest\Z"), "go test"),
    (frozenset({"cargo", "cross"}), re.compile(r"\Anextest\Z"), "cargo nextest"),
    (frozenset({"playwright"}), _EXACTLY_TEST, "playwright"),
    (frozenset({"react-scripts", "craco"}), _EXACTLY_TEST, "jest"),
    (frozenset({"rails", "rake"}), re.compile(r"\Atest(?::\w+)*\Z"), "minitest"),
    (frozenset({"mvn", "mvnw", "mvnd"}), re.compile(r"\A(?:test|verify|integration-test|(?:surefire|failsafe):\S+)\Z"),
     "maven"),
    (frozenset({"gradle", "gradlew"}), _GRADLE_TASK, "gradle"),
    (frozenset({"dotnet"}), re.compile(r"\A(?:test|vstest)\Z"), "dotnet test"),
    (frozenset({"make", "gmake", "just", "task", "ninja", "invoke", "inv", "poe", "rush", "mise", "composer", "cmake"}),
     _TEST_TARGET, "make"),
    (frozenset({"hatch", "pdm"}), _TEST_TARGET, "make"),
    (frozenset({"bazel", "bazelisk", "swift", "flutter", "dart", "mix", "sbt", "lein", "zig",
                "forge", "deno", "xcodebuild"}), _EXACTLY_TEST, SCRIPT),
)  # fmt: skip


def _perhaps(name: str, rest: list[str]) -> str | None:
    """A program of `_BY_WORD` without its word: some of its other words may run tests, too."""
    if name in ("cargo", "cross"):
        return "cargo test" if any(word in ("test", "t") for word in rest[:4]) else None
    if name == "rake":
        return "rspec" if "spec" in rest else None if rest else SCRIPT
    if name in ("mvn", "mvnw", "mvnd"):
        return SCRIPT if not {"install", "package", "deploy"}.isdisjoint(rest) else None
    if name in ("gradle", "gradlew"):
        return SCRIPT if "build" in rest else None
    if name in ("npm", "yarn", "pnpm", "bun", "make", "gmake", "just", "task", "invoke", "inv", "poe"):
        return SCRIPT if any(_CHECK_TARGET.search(word) for word in rest) else None
    return None


def _of_shell(rest: list[str]) -> str | None:
    """`bash -lc "..."` runs the quoted command, `bash run_tests.sh` a script."""
    for place, word in enumerate(rest):
        if word[:1] != "-":
            return SCRIPT if _TEST_SCRIPT.search(_base(word)) else None
        if word.endswith("c") and place + 1 < len(rest):
            return test_framework(rest[place + 1])
    return None


def _of_container(rest: list[str]) -> str | None:
    """`docker compose exec app pytest`: the first words that make up a command that runs tests."""
    if not {"exec", "run"}.isdisjoint(rest):
        for place in range(min(len(rest), 20)):
            framework = _framework(_unwrapped(rest[place:])) if rest[place][:1] != "-" else None
            if framework and framework != SCRIPT:
                return framework
    return None


def _of_python(rest: list[str]) -> str | None:
    for place, word in enumerate(rest):
        if word == "-m":
            module = rest[place + 1 :]
            return _framework(module) if module and module[0] != "pip" else None
        if word == "-c":
            return None
        if word[:1] != "-":
            if _base(word) in ("manage.py", "runtests.py"):
                return "unittest" if "test" in rest or _base(word) == "runtests.py" else None
            return SCRIPT if _TEST_SCRIPT.search(_base(word)) else None
    return None


def _of_interpreter(name: str, rest: list[str]) -> str | None:
    if name == "coverage":
        return _of_python(rest[1:]) if rest[:1] == ["run"] else None
    if name == "php":
        plain = [word for word in rest if word[:1] != "-"]
        if plain[:2] == ["artisan", "test"]:
            return "phpunit"
        return _BY_NAME.get(_base(plain[0])) if plain else None
    if name == "ruby":
        return "minitest" if any(_TEST_SCRIPT.search(_base(word)) for word in rest) else None
    return _script(rest)


def _script(rest: list[str]) -> str | None:
    plain = [word for word in rest if word[:1] != "-"]
    return SCRIPT if plain and _TEST_SCRIPT.search(_base(plain[0])) else None


def _is_path(word: str) -> bool:
    return "/" in word or word.endswith((".sh", ".py", ".js"))


_PURPOSEFUL = re.compile(
    r"\b(?:git|gh|build|compile|make|ninja|tsc|javac|rustc|gcc|clang|g\+\+|cargo|go|gradlew?|mvnw?|xcodebuild|webpack|"
    r"l(?:int|inter)|eslint|ruff|flake8|pylint|mypy|pyright|biome|rubocop|shellcheck|clippy|golangci-lint|pre-commit|"
    r"type-?check)\b"
)  # fmt: skip
_BUILDERS = {"tsc", "vue-tsc", "javac", "rustc", "gcc", "g++", "clang", "clang++", "xcodebuild", "webpack", "ninja",
             "build", "typecheck", "type-check", "compile"}  # fmt: skip
_LINTERS = {"eslint", "ruff", "flake8", "pylint", "mypy", "pyright", "biome", "rubocop", "shellcheck", "golangci-lint",
            "pre-commit", "stylelint", "lint", "oxlint"}  # fmt: skip
_SCRIPT_RUNNERS = {"npm", "yarn", "pnpm", "bun", "turbo", "nx", "lerna", "just", "task", "invoke", "inv", "poe", "make",
                   "gmake"}  # fmt: skip
_BUILD_WORDS = {
    "cargo": {"build", "check", "b", "c"}, "go": {"build", "install"}, "gradle": {"build", "assemble"},
    "gradlew": {"build", "assemble"}, "mvn": {"compile", "package", "install"},
    "mvnw": {"compile", "package", "install"}, "dotnet": {"build", "publish"}, "docker": {"build"},
    "swift": {"build"}, "bazel": {"build"}, "next": {"build"}, "vite": {"build"}, "cmake": {"--build"},
    "zig": {"build"}, "mix": {"compile"}, "sbt": {"compile"}, "ng": {"build"},
}  # fmt: skip
_LINT_WORDS = {"cargo": {"clippy"}, "go": {"vet"}, "next": {"lint"}, "ng": {"lint"}, "mix": {"credo"}}
_BUILD_TARGET = re.compile(r"(?:\A|[:_-])(?:build|compile|type-?check|tsc)(?:\Z|[:_-])")
_LINT_TARGET = re.compile(r"(?:\A|[:_-])lint(?:\Z|[:_-])")
_MAKE_ALL = {"all", "install"}


def purposes(command: str) -> list[str]:
    """What a command line does apart from tests, in order: "build", "lint", "commit", "push"."""
    return list(_purposes(command))


@lru_cache(_REMEMBERED)
def _purposes(command: str) -> tuple[str, ...]:
    if not _PURPOSEFUL.search(command):
        return ()
    found: dict[str, None] = {}
    for words in _commands(command):
        found.update(dict.fromkeys(_purposes_of(_unwrapped(words))))
    return tuple(found)


def _purposes_of(words: list[str]) -> list[str]:
    if not words or not _ASKS_ONLY.isdisjoint(words):
        return []
    name, rest = _base(words[0]), [word.strip("\"'") for word in words[1:]]
    if name in _SHELLS:
        inner = next((rest[at + 1] for at, word in enumerate(rest[:-1]) if word[:1] == "-" and word.endswith("c")), "")
        return purposes(inner)
    if name in ("git", "gh"):
        return _of_git(name, rest)
    if _PYTHON.match(name):
        return _purposes_of(rest[1:]) if rest[:1] == ["-m"] else []
    plain = [word for word in rest if word[:1] != "-" or word == "--build"]
    if name in _LINTERS or not _LINT_WORDS.get(name, set()).isdisjoint(plain[:2]):
        return ["lint"]
    if name in _BUILDERS or not _BUILD_WORDS.get(name, set()).isdisjoint(plain[:2]):
        return ["build"]
    return _of_targets(name, plain) if name in _SCRIPT_RUNNERS else []


def _of_git(name: str, rest: list[str]) -> list[str]:
    if name == "gh":
        return ["push"] if rest[:2] in (["pr", "create"], ["pr", "merge"], ["release", "create"]) else []
    while rest and rest[0][:1] == "-":
        rest = rest[2 if rest[0] in ("-C", "-c") else 1 :]
    return rest[:1] if rest[:1] in (["commit"], ["push"]) and "--dry-run" not in rest else []


def _of_targets(name: str, plain: list[str]) -> list[str]:
    """The purposes of the targets or scripts that a runner runs; make without a target builds."""
    if name in ("make", "gmake") and not _MAKE_ALL.isdisjoint(plain or {"all"}):
        return ["build"]
    if plain and plain[0] in _FETCHES:
        return []
    targets = (("build", _BUILD_TARGET), ("lint", _LINT_TARGET))
    return [purpose for purpose, target in targets if any(target.search(word) for word in plain)]
