"""What commands are for, by hand."""

from __future__ import annotations

import pytest

from helix_assets.derive.commands import purposes


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git add -A && git commit -m 'build it; git push'", ["commit"]),
        ("git -C /a push -f 2>&1 | tail", ["push"]),
        ("git commit -qm x && git push", ["commit", "push"]),
        ("git commit --dry-run", []),
        ("git log --oneline | grep build", []),
        ("gh pr create --fill", ["push"]),
        ("gh pr view 3", []),
        ("mise run fmt && mise run lint", ["lint"]),
        ("npm run build", ["build"]),
        ("npm install build", []),
        ("make", ["build"]),
        ("make lint", ["lint"]),
        ("make clean", []),
        ("cargo clippy -- -D warnings", ["lint"]),
        ("cargo build --release", ["build"]),
        ("bash -lc 'npx tsc --noEmit'", ["build"]),
        ("python -m mypy src", ["lint"]),
        ("docker compose build", ["build"]),
        ("eslint --version", []),
        ("go vet ./... && go build ./...", ["lint", "build"]),
        ("cat build.log", []),
    ],
)
def test_purpose_of_a_command_is_what_its_programs_do(command: str, expected: list[str]) -> None:
    assert purposes(command) == expected
