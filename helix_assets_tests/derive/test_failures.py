"""Errors are told apart by what they say, else by how the program ended."""

from __future__ import annotations

import pytest

from helix_assets.derive.failures import error_class, meaningful_part


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Error: Command timed out after 120 seconds", "timeout"),
        ("API Error: 429 Too Many Requests", "rate_limit"),
        ("remote: HTTP 403 Forbidden", "authentication"),
        ("bash: ./run.sh: Permission denied", "permission"),
        ("<tool_use_error>String to replace not found in file.</tool_use_error>", "stale_edit"),
        ("File has been modified since it was read", "stale_edit"),
        ("ModuleNotFoundError: No module named 'requests'", "missing_dependency"),
        ("Error: Cannot find module 'express'", "missing_dependency"),
        ("bash: pnpm: command not found", "missing_command"),
        ("cat: a.txt: No such file or directory", "missing_file"),
        ("===== 2 failed, 5 passed in 0.3s =====", "test_failure"),
        ("  File 'x.py', line 3\nSyntaxError: invalid syntax", "syntax"),
        ("src/a.ts(3,1): error TS2345: Argument of type 'string' is not assignable", "type"),
        ("error: could not compile `shop` due to 2 previous errors", "build"),
        ("curl: (7) Failed to connect: Connection refused", "network"),
        ("fatal: not a git repository", "git"),
        ("File content (26000 tokens) exceeds maximum allowed tokens", "too_large"),
        ("InputValidationError: Read failed: missing required parameter", "invalid_input"),
        ("Traceback (most recent call last):\nValueError: 3", "exception"),
        ("it did not work", "other"),
    ],
)
def test_class_of_a_text(text: str, expected: str) -> None:
    assert error_class(text) == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [(1, "nonzero_exit"), (124, "timeout"), (127, "missing_command"), (137, "killed"), (0, "other")],
)
def test_a_silent_failure_is_told_by_its_exit_code(code: int, expected: str) -> None:
    assert error_class("", code) == expected


def beginning(text: str) -> str:
    return " ".join(text[:60].split())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "=== RUN TestCart\ncreated the shop\nINFO saved 3 lines\n    cart_test.go:9: total is not 3",
            "cart_test.go:9",
        ),
        (
            "> shop@1.0.0 check\n> tsc --noEmit\n" + "." * 50 + "\nsrc/a.ts(3,1): error TS2345: Argument",
            "src/a.ts(3,1)",
        ),
        ("collected 3 items\n" + "." * 60 + "\nE       AssertionError: assert 2 == 3", "E AssertionError: assert"),
        (
            "Usage: shop [command]\n" + "  show  Show a cart\n" * 5 + "\nError: unknown flag: --json",
            "Error: unknown flag",
        ),
        ("x" * 300 + " and " + "y" * 200 + " zz: connection refused by the shop", "connection refused"),
    ],
)
def test_a_failure_is_told_from_where_its_text_says_what_is_wrong(text: str, told: str) -> None:
    found = meaningful_part(text, beginning(text))
    assert told in found[:110]
    assert len(found) <= 200


@pytest.mark.parametrize(
    "text",
    [
        "cat: cart.toml: No such file or directory\n" + "Error: something else\n" * 9,
        '<tool_use_error>Found 2 matches of the text</tool_use_error> Errorf("failed to open")',
        "Exit code 1\nnothing else is printed here, line by line\n" * 3,
        "x" * (1 << 16) + "\nError: beyond what is looked through",
    ],
)
def test_else_a_failure_is_told_by_how_its_text_begins(text: str) -> None:
    assert meaningful_part(text, beginning(text)) == beginning(text)
