"""The repositories that a sample person works in: files, code, sentences and what their tools print.

Belongs here: text and its assembly. Not here: what happens in a session (`demo.story`), or how an agent logs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

_SUFFIXES = ("id", "map", "total", "count", "key", "cache", "index", "state", "config", "loader", "limit", "batch")

_CODE = {
    "python": (
        "def {0}_{1}({2}: str, *, limit: int = {n}) -> list[str]:",
        '    """Return the {0} of each {1}, newest {2} first."""',
        "    {0} = self._{1}.get({2}, {n})",
        "    if {0} is None or {1} < {n}:",
        '        raise ValueError(f"{0} has no {1}: {{{2}!r}}")',
        "    for {0} in sorted({1}, key=lambda row: row.{2}):",
        "        yield {0}.{1}, {2} + {n}",
        "    return [{0} for {0} in {1} if {0}.{2} > {n}]",
        '    logger.info("{0} %s kept %d {1}", {2}, {n})',
        "",
    ),
    "typescript": (
        "export function {0}({1}: string, {2} = {n}): number {{",
        "  const {0} = await fetch{1}(`/api/{2}?page={n}`);",
        "  if (!{0} || {1}.length > {n}) return {2};",
        "  expect({0}.{1}).toEqual({{ {2}: {n} }});",
        "  return {0}.map(({1}) => ({{ ...{1}, {2}: {n} }}));",
        "  useEffect(() => {{ set{0}({1}); }}, [{2}]); // {n} ms",
        "export const {0} = createSelector([{1}, {2}], (a, b) => a + b + {n});",
        "}}",
        "",
    ),
    "rust": (
        "pub fn {0}(&self, {1}: &str, {2}: usize) -> Result<u64, Error> {{",
        "    let {0} = self.{1}.get(&{2}).copied().unwrap_or({n});",
        "    for {0} in {1}.iter().skip({n}) {{ {2} += {0}.weight(); }}",
        "    match {0} {{ Some({1}) if {1} > {n} => Ok({1}), _ => Err(Error::{2}) }}",
        "    assert_eq!({0}({1}, {n}).unwrap(), {2});",
        '    #[error("{0} out of bounds for {1}: {n}")]',
        "impl {0} {{ const {1}: u32 = {n}; }} // {2}",
        "}}",
        "",
    ),
    "go": (
        "func (s *{0}) {1}(ctx context.Context, {2} int) error {{",
        "\t{0}, err := s.{1}.Fetch(ctx, {2}, {n})",
        '\tif err != nil {{ return fmt.Errorf("{0} {1}: %w", err) }}',
        "\tfor _, {0} := range {1} {{ {2} += {0}.Size + {n} }}",
        "\tselect {{ case {0} <- {1}: case <-time.After({n} * time.Millisecond): return {2} }}",
        '\tt.Fatalf("{0}: got %d, want {n} {1}", {2})',
        "type {0} struct {{ {1} int64; {2} [{n}]byte }}",
        "}}",
        "",
    ),
}

_SENTENCES = (
    "The {0} is computed before the {1} is known, so a late {2} is dropped.",
    "I see: `{0}` returns {n} where the caller expects an empty {1}.",
    "Moving the check into the {0} keeps the {1} path free of branches.",
    "The tests cover {0} and {1}, but nothing covers a {2} that arrives twice.",
    "That is the second place that rounds the {0}; both should go through `{1}`.",
    "With {n} rows the {0} still fits into memory; beyond that the {1} has to stream.",
    "Nothing else reads `{0}`, so renaming it to `{1}` is safe.",
    "The failure is real: the {0} goes stale as soon as the {1} changes.",
    "I will leave the {0} alone and only touch the {1}, as you asked.",
    "Zeile {n}: die {0} prüft `{1}` nicht, das erklärt den Fehler.",
    "Next I want to know who calls the {0} without a {1}.",
    "The old {0} swallowed the error; now the {1} carries it up to the {2}.",
)

_PROMPTS = (
    "the {0} test fails on main since yesterday, find out why and fix it",
    "Add a {0} option to the {1}. Keep the default as it is, and write a test for both.",
    "why does `{0}` read the {1} twice?",
    "please clean up {f}: the {0} and the {1} do nearly the same thing",
    "Users report a wrong {0} when the {1} is empty. Reproduce it with a test first.",
    "rename {0} to {1} everywhere, then run the whole suite",
    "Look at {f} and tell me whether the {0} can race with the {1}.",
    "bump the {0} limit to {n} and make it configurable",
    "commit what we have, then continue with the {0}",
    "What is left before we can ship the {0}?",
    "ok, and now the same for the {1}",
    "that is not what I meant: the {0} must stay sorted by {1}",
)


@dataclass(frozen=True)
class Repo:
    """One repository: its folder, what is in it, how its tests are run."""

    name: str
    language: str
    cwd: str
    branches: tuple[str, ...]
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    terms: tuple[str, ...]
    test_command: str
    build_command: str

    def path(self, name: str) -> str:
        """Return a file's absolute path."""
        return f"{self.cwd}/{name}"


def _repo(name: str, language: str, layout: tuple[str, str], terms: str, commands: tuple[str, str]) -> Repo:
    words = tuple(terms.split())
    return Repo(
        name=name,
        language=language,
        cwd=f"/home/sam/code/{name}",
        branches=("main", f"fix/{words[0]}-{words[1]}", f"feat/{words[2]}", f"sam/{words[3]}.{words[4]}"),
        sources=tuple(layout[0].format(word) for word in words[:10]),
        tests=tuple(layout[1].format(word) for word in words[:6]),
        terms=words,
        test_command=commands[0],
        build_command=commands[1],
    )


REPOS = (
    _repo(
        "ledger-api",
        "python",
        ("src/ledger/{}.py", "tests/test_{}.py"),
        "refund posting balance currency statement payout invoice journal period rounding audit account tax",
        ("python -m pytest -q", "ruff check ."),
    ),
    _repo(
        "storefront_web",
        "typescript",
        ("src/features/{}.tsx", "src/features/{}.test.tsx"),
        "cart checkout coupon price banner search filter image stock shipping address review wishlist",
        ("npx jest --colors=false", "npx tsc --noEmit"),
    ),
    _repo(
        "tile.router",
        "rust",
        ("src/{}.rs", "tests/{}.rs"),
        "segment graph bounds heap layer route tile node edge weight projection zoom turn",
        ("cargo test", "cargo clippy -- -D warnings"),
    ),
    _repo(
        "queue-relay",
        "go",
        ("internal/{0}/{0}.go", "internal/{0}/{0}_test.go"),
        "lease backoff offset shard retry consumer broker partition topic ack worker probe metric",
        ("go test ./...", "go vet ./..."),
    ),
)


class Pen:
    """Writes text of any length about one repository."""

    def __init__(self, rng: Random, repo: Repo) -> None:
        self.rng = rng
        self.repo = repo
        self._code, self._prose = _pools(repo)

    def code(self, chars: int) -> str:
        """Return about that many characters of code."""
        return "\n".join(self.rng.choices(self._code, k=max(1, chars // 44)))

    def prose(self, chars: int) -> str:
        """Return about that many characters of sentences."""
        return " ".join(self.rng.choices(self._prose, k=max(1, chars // 72)))

    def prompt(self) -> str:
        """Return what a person asks for."""
        wish = self.rng.choice(_PROMPTS)
        return _fill(self.rng, wish, self.repo.terms, file=self.rng.choice(self.repo.sources))

    def numbered(self, chars: int) -> str:
        """Return code with line numbers, as a file viewer shows it."""
        return "\n".join(f"{n:>6}\t{line}" for n, line in enumerate(self.code(chars).split("\n"), 1))

    def matches(self, chars: int) -> str:
        """Return the hits of a text search."""
        lines = self.code(chars * 2 // 3).split("\n")
        return "\n".join(f"{self.rng.choice(self.repo.sources)}:{17 * n + 3}:{line}" for n, line in enumerate(lines))


@cache
def _pools(repo: Repo) -> tuple[list[str], list[str]]:
    """Build a repository's lines and sentences once; they do not depend on the seed."""
    rng = Random(repo.name)
    camel = repo.language in ("typescript", "go")
    names = [_join(term, suffix, camel=camel) for term in repo.terms for suffix in _SUFFIXES]
    code = [_fill(rng, rng.choice(_CODE[repo.language]), names) for _ in range(6000)]
    return code, [_fill(rng, rng.choice(_SENTENCES), [*repo.terms, *names]) for _ in range(3000)]


def _join(term: str, suffix: str, *, camel: bool) -> str:
    return term + suffix.capitalize() if camel else f"{term}_{suffix}"


def _fill(rng: Random, template: str, names: Sequence[str], *, file: str = "") -> str:
    return template.format(*rng.choices(names, k=3), n=rng.randrange(2, 5000), f=file)


@dataclass(frozen=True)
class _Run:
    """What one test run prints."""

    file: str
    case: str
    log: str
    got: int
    failed: int
    passed: int
    seconds: str


def test_output(pen: Pen, failed: int, chars: int) -> str:
    """Return what the repository's test runner prints, with that many failures."""
    rng, repo = pen.rng, pen.repo
    run = _Run(
        file=rng.choice(repo.tests),
        case=f"{rng.choice(repo.terms)} {rng.choice(_SUFFIXES)}",
        log=pen.code(chars),
        got=rng.randrange(10, 900),
        failed=failed,
        passed=rng.randrange(8, 240),
        seconds=f"{rng.randrange(1, 90)}.{rng.randrange(10, 99)}",
    )
    return _RUNNERS[repo.language](run)


def _pytest(run: _Run) -> str:
    dots = "." * min(run.passed, 70)
    if not run.failed:
        return f"{dots} [100%]\n{run.log}\n{run.passed} passed in {run.seconds}s"
    test = f"test_{run.case.replace(' ', '_')}"
    return (
        f"{dots}F [100%]\n=================================== FAILURES ====\n"
        f"____ {test} ____\n{run.log}\n>       assert result == {run.got + 1}\nE       assert {run.got} == "
        f"{run.got + 1}\n\n{run.file}:{run.got}: AssertionError\n====== short test summary info ======\n"
        f"FAILED {run.file}::{test} - assert {run.got} == {run.got + 1}\n"
        f"{run.failed} failed, {run.passed} passed in {run.seconds}s"
    )


def _jest(run: _Run) -> str:
    total = f"{run.failed + run.passed} total\nTime:        {run.seconds} s"
    if not run.failed:
        suites = "Test Suites: 4 passed, 4 total"
        return f"PASS {run.file}\n{run.log}\n\n{suites}\nTests:       {run.passed} passed, {total}"
    head = f"FAIL {run.file}\n  ● {run.case}\n\n    Expected: {run.got + 1}\n    Received: {run.got}\n"
    suites = "Test Suites: 1 failed, 3 passed, 4 total"
    return f"{head}{run.log}\n\n{suites}\nTests:       {run.failed} failed, {run.passed} passed, {total}"


def _cargo(run: _Run) -> str:
    test = f"tests::{run.case.replace(' ', '_')}"
    sums = f"{run.passed} passed; {run.failed} failed; 0 ignored; 0 measured; 0 filtered out"
    end = f"finished in {run.seconds}s"
    head = f"running {run.passed + run.failed} tests\ntest {test} ... "
    if not run.failed:
        return f"{head}ok\n{run.log}\n\ntest result: ok. {sums}; {end}"
    panic = f"---- {test} stdout ----\nthread '{test}' panicked at {run.file}:{run.got}:9:\nassertion failed: {run.got}"
    return f"{head}FAILED\n\nfailures:\n\n{panic}\n{run.log}\n\ntest result: FAILED. {sums}; {end}"


def _gotest(run: _Run) -> str:
    package = f"relay/{run.file.rpartition('/')[0]}"
    test = "Test" + run.case.title().replace(" ", "")
    passes = "".join(f"--- PASS: {test}Ok{n} (0.00s)\n" for n in range(min(run.passed, 20)))
    if not run.failed:
        return f"{passes}{run.log}\nok  \t{package}\t{run.seconds}s"
    fails = "".join(f"--- FAIL: {test}{n} (0.01s)\n    {run.file}:{run.got}: got {n}\n" for n in range(run.failed))
    return f"{passes}{fails}{run.log}\nFAIL\nFAIL\t{package}\t{run.seconds}s"


_RUNNERS = {"python": _pytest, "typescript": _jest, "rust": _cargo, "go": _gotest}
