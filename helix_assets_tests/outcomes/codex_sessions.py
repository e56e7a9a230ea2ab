"""Codex sessions as they really end, each with the outcome a reader gives it."""

from __future__ import annotations

from functools import partial

from helix_assets_tests.outcomes.steps import (
    Answer,
    ApiError,
    Ask,
    Compacted,
    Cut,
    Denied,
    DeniedEdit,
    Edit,
    Injected,
    Interrupt,
    Prompt,
    Run,
    Say,
    session,
)

_session = partial(session, "codex")
_GO_RED = "--- FAIL: TestSplit (0.00s)\n    split_test.go:14: got 2 want 3\nFAIL\nFAIL\texample.com/split\t0.004s"
_GO_GREEN = "ok  \texample.com/split\t0.004s"
_CARGO_RED = "test parse::tests::nested ... FAILED\ntest result: FAILED. 7 passed; 1 failed; 0 ignored"
_CARGO_GREEN = "test result: ok. 8 passed; 0 failed; 0 ignored"

CODEX = (
    # -- fail ----------------------------------------------------------------------------------------------------
    _session(
        "fail",
        "go tests red at the end",
        Prompt("Split drops the last empty field, fix it"),
        Run("cat split.go", "package split"),
        Edit("split.go"),
        Run("go test ./...", _GO_RED, 1),
        Answer("I changed Split to keep trailing fields, but TestSplit is still failing and I could not find out why."),
    ),
    _session(
        "fail",
        "says nothing of the red tests",
        Prompt("support nested arrays in the parser"),
        Edit("src/parse.rs"),
        Run("cargo test", _CARGO_RED, 101),
        Answer("Implemented nested array support in `src/parse.rs` with a recursive descent for brackets."),
    ),
    _session(
        "fail",
        "stream error ends the turn",
        Prompt("summarize the architecture of this repo"),
        Run("ls", "cmd\ninternal\nREADME.md"),
        ApiError("stream disconnected before completion: error sending request"),
    ),
    _session(
        "fail",
        "usage limit",
        Prompt("implement the billing webhook"),
        Edit("billing/hook.ts"),
        ApiError("You've hit your usage limit. Upgrade to Pro or try again in 3 hours 12 minutes."),
    ),
    _session(
        "fail",
        "person reports the same error",
        Prompt("docker compose up fails with port already in use"),
        Edit("docker-compose.yml"),
        Answer("I moved the service to port 5433. Run `docker compose up` again."),
        Prompt("same error: Bind for 0.0.0.0:5432 failed: port is already allocated"),
    ),
    _session(
        "fail",
        "no network in the sandbox",
        Prompt("add the stripe sdk and use it in checkout"),
        Run("npm install stripe", "npm error code ENOTFOUND\nnpm error network request to https://registry failed", 1),
        Run("npm install stripe --prefer-offline", "npm error code ENOTFOUND", 1),
        Answer(
            "I'm blocked: the sandbox has no network access, so the stripe package cannot be installed. Nothing was "
            "changed in checkout."
        ),
    ),
    _session(
        "fail",
        "type check does not pass",
        Prompt("turn on strict mode in tsconfig and fix the errors"),
        Edit("tsconfig.json"),
        Run("npx tsc --noEmit", "src/a.ts(3,5): error TS2322\nFound 41 errors in 12 files.", 2),
        Edit("src/a.ts"),
        Run("npx tsc --noEmit", "src/b.ts(9,1): error TS7006\nFound 33 errors in 11 files.", 2),
        Answer("Strict mode is on. 8 of the 41 errors are fixed; 33 remain, mostly in the generated client."),
    ),
    _session(
        "fail",
        "push rejected",
        Prompt("push this branch"),
        Run("git push origin feature/x", "! [rejected] feature/x -> feature/x (fetch first)", 1),
        Answer("The push was rejected because the remote branch has commits you don't have. I did not force it."),
    ),
    _session(
        "fail",
        "everything rejected by the person",
        Prompt("tidy up the utils folder"),
        DeniedEdit("utils/a.js"),
        Answer("The edit was not applied, so nothing has changed in utils."),
        Prompt("this is not what I wanted"),
    ),
    _session(
        "fail",
        "gives up on reproducing",
        Prompt("our ci fails with a segfault in the image tests, find out why and fix it"),
        Run("pytest tests/image -x", "===== 14 passed in 3.1s ====="),
        Run("pytest tests/image -x -n 4", "===== 14 passed in 1.9s ====="),
        Answer("I was unable to reproduce the segfault locally, so I could not fix it. A core dump would help."),
    ),
    _session(
        "fail",
        "lint errors remain and the agent stops",
        Prompt("get eslint clean"),
        Run("npx eslint src", "✖ 120 problems (120 errors, 0 warnings)", 1),
        Run("npx eslint src --fix", "✖ 63 problems (63 errors, 0 warnings)", 1),
        Answer("`--fix` solved about half. 63 errors are left that need manual changes."),
    ),
    _session(
        "fail",
        "person: does not compile",
        Prompt("add a Retry-After header to 429 responses"),
        Edit("server.go"),
        Answer("Added the Retry-After header in writeLimit."),
        Prompt("it doesn't compile: undefined: strconv"),
        ApiError("exceeded retry limit, last status: 503 Service Unavailable"),
    ),
    # -- abandoned ---------------------------------------------------------------------------------------------------
    _session(
        "abandoned",
        "turn aborted, nothing more",
        Prompt("rewrite the readme"),
        Run("cat README.md", "# x"),
        Interrupt(),
    ),
    _session(
        "abandoned",
        "killed in a long command",
        Prompt("benchmark both implementations"),
        Cut("cargo bench"),
    ),
    _session(
        "abandoned",
        "command rejected and turn aborted",
        Prompt("free some disk space"),
        Run("du -sh *", "4G target\n1G .git"),
        Denied("rm -rf target"),
        Interrupt(),
    ),
    _session("abandoned", "prompt without any reaction", Prompt("explain how the scheduler picks the next job")),
    _session(
        "abandoned",
        "second prompt without any reaction",
        Prompt("which go version do we need?"),
        Run("head -5 go.mod", "module x\ngo 1.22"),
        Answer("Go 1.22, according to go.mod."),
        Prompt("bump it to 1.23 and fix what breaks"),
    ),
    _session(
        "abandoned",
        "asked by tool, not answered",
        Prompt("add auth"),
        Run("ls", "server.js"),
        Ask("Do you prefer sessions or JWT?"),
    ),
    _session(
        "abandoned",
        "asked in words, not answered",
        Prompt("delete the unused tables"),
        Run("psql -c '\\dt'", "users\norders\ntmp_2021"),
        Answer(
            "`tmp_2021` has no references in the code. Dropping it cannot be undone, so I stopped here. Should I go "
            "ahead and drop it?"
        ),
    ),
    _session(
        "abandoned",
        "ends on a result",
        Prompt("trace where the config is loaded twice"),
        Run("rg -n loadConfig", "a.ts:4\nb.ts:9"),
        Run("sed -n 1,80p a.ts", "import x"),
    ),
    _session(
        "abandoned",
        "stopped, asked something else, stopped again",
        Prompt("add dark mode"),
        Edit("theme.css"),
        Interrupt(),
        Prompt("use css variables instead"),
        Edit("theme.css"),
        Interrupt(),
    ),
    _session(
        "abandoned",
        "person drops it",
        Prompt("could we use sqlite here?"),
        Answer("Yes. The queries are simple enough; only the JSON operators need another syntax."),
        Prompt("hm ok, leave it for now"),
    ),
    _session(
        "abandoned",
        "last words announce the next step",
        Prompt("fix the flaky upload test"),
        Run("pytest tests/upload -x", "===== 1 failed in 2.0s =====", 1),
        Say("The failure comes from a race in the fake server. Next I'll make it wait for the port."),
    ),
    _session(
        "abandoned",
        "cut while patching",
        Prompt("split server.py into modules"),
        Edit("server/routes.py"),
        Compacted(),
        Edit("server/models.py"),
    ),
    # -- success -----------------------------------------------------------------------------------------------------
    _session(
        "success",
        "fixed and green",
        Prompt("Split drops the last empty field, fix it"),
        Edit("split.go"),
        Run("go test ./...", _GO_RED, 1),
        Edit("split.go"),
        Run("go test ./...", _GO_GREEN),
        Answer("Fixed. `Split` keeps trailing empty fields, and `go test ./...` passes."),
    ),
    _session(
        "success",
        "arithmetic",
        Prompt("what is 17*23? just the number"),
        Answer("391"),
    ),
    _session(
        "success",
        "review delivered",
        Prompt("review the last commit for security problems, don't change anything"),
        Run("git show HEAD", "diff --git a/x b/x"),
        Answer(
            "Two findings. 1) x.py:14 builds the query from user input. 2) the token is logged at debug level. The "
            "rest looks fine."
        ),
    ),
    _session(
        "success",
        "committed and pushed",
        Prompt("commit and push"),
        Run("git commit -am 'Keep trailing fields'", "[fix 9e1c0aa] Keep trailing fields"),
        Run("git push", "To github.com:x/y\n   1a2b3c4..9e1c0aa  fix -> fix"),
        Answer("Committed as 9e1c0aa and pushed to origin/fix."),
    ),
    _session(
        "success",
        "old failures are not ours",
        Prompt("add a Size method to Set"),
        Edit("set.rs"),
        Run("cargo test", _CARGO_RED, 101),
        Run("git stash && cargo test; git stash pop", _CARGO_RED, 101),
        Answer(
            "Added `Set::size`. One test (`parse::tests::nested`) fails, but it fails on main as well and is unrelated "
            "to this change; the new tests pass."
        ),
    ),
    _session(
        "success",
        "person is happy",
        Prompt("center the logo"),
        Edit("style.css"),
        Answer("Centered the logo with flexbox."),
        Prompt("great that works"),
    ),
    # -- unknown -----------------------------------------------------------------------------------------------------
    _session("unknown", "session without a prompt", Injected("<environment_context></environment_context>")),
    _session("unknown", "greeting", Prompt("hello"), Answer("Hello! How can I help you with your code today?")),
    _session("unknown", "is it on", Prompt("test"), Answer("I'm here and working. What would you like me to do?")),
)
