"""Claude Code sessions as they really end, each with the outcome a reader gives it."""

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
    Plan,
    Prompt,
    Queued,
    Read,
    Run,
    Say,
    Typed,
    session,
)

_session = partial(session, "claude")
_PYTEST_RED = (
    "FAILED tests/test_cart.py::test_total - AssertionError: assert 3 == 4\n"
    "========= 1 failed, 12 passed in 0.41s ========="
)
_PYTEST_GREEN = "........................ [100%]\n========= 24 passed in 0.52s ========="

CLAUDE = (
    # -- fail ----------------------------------------------------------------------------------------------------
    _session(
        "fail",
        "tests red, agent runs out of ideas",
        Prompt("The cart total is off by one when a coupon is used. Please fix it, tests must pass."),
        Read("src/cart.py"),
        Edit("src/cart.py"),
        Run("pytest -q", _PYTEST_RED, 1),
        Edit("src/cart.py"),
        Run("pytest -q", _PYTEST_RED, 1),
        Answer(
            "I've tried two approaches but test_total still fails. The rounding seems to happen somewhere outside of "
            "cart.py and I haven't been able to find where."
        ),
    ),
    _session(
        "fail",
        "agent claims success over red tests",
        Prompt("make the importer skip empty rows"),
        Edit("importer/rows.py"),
        Run("python -m pytest importer", "E   KeyError: 'id'\n===== 3 failed, 9 passed in 1.20s =====", 1),
        Answer("The importer now skips empty rows. Let me know if you need anything else!"),
    ),
    _session(
        "fail",
        "person says it still fails and leaves",
        Prompt("login redirects to a blank page, can you fix?"),
        Read("web/login.ts"),
        Edit("web/login.ts"),
        Answer("Fixed: the redirect target was read before the session existed. It should work now."),
        Prompt("nope, still a blank page"),
    ),
    _session(
        "fail",
        "usage limit in the middle of the work",
        Prompt("migrate all handlers to the new router"),
        Edit("api/a.go"),
        Edit("api/b.go"),
        Say("Two of nine handlers are done, moving on."),
        ApiError("Claude AI usage limit reached|1749034800"),
    ),
    _session(
        "fail",
        "five hour limit, person cannot go on",
        Prompt("please write the docs for the plugin system"),
        Read("docs/index.md"),
        ApiError("5-hour limit reached ∙ resets 3pm\n/upgrade to increase your usage limit."),
        Prompt("continue"),
        ApiError("5-hour limit reached ∙ resets 3pm\n/upgrade to increase your usage limit."),
    ),
    _session(
        "fail",
        "prompt too long, session is stuck",
        Prompt("read all the logs in /var/log/app and tell me why it crashed"),
        Read("/var/log/app/1.log"),
        Read("/var/log/app/2.log"),
        ApiError("Prompt is too long"),
        Typed("/exit"),
    ),
    _session(
        "fail",
        "commit refused by the hook",
        Prompt("commit this with a good message"),
        Run("git diff --stat", " src/app.ts | 14 +++++++-------"),
        Run(
            "git add -A && git commit -m 'Use the new client'",
            "husky - pre-commit hook exited with code 1\nsrc/app.ts:31:5 error 'legacy' is not defined no-undef",
            1,
        ),
        Answer(
            "The commit was rejected by the pre-commit hook: `legacy` is not defined in src/app.ts. I did not change "
            "your code; you will need to fix that before the commit can go through."
        ),
    ),
    _session(
        "fail",
        "build stays broken",
        Prompt("upgrade to next 15"),
        Run("npm install next@15", "added 14 packages"),
        Run("npm run build", "Type error: Property 'params' is missing\nFailed to compile.", 1),
        Edit("app/page.tsx"),
        Run("npm run build", "Type error: Route has an invalid export\nFailed to compile.", 1),
        Answer("The upgrade is in place, however the build is still failing with one type error in app/x/route.ts."),
    ),
    _session(
        "fail",
        "person gives up and has it reverted",
        Prompt("speed up the search query"),
        Edit("search/query.sql"),
        Run("make bench", "before 120ms after 180ms"),
        Prompt("that made it slower, revert it, I'll do it myself"),
        Run("git checkout search/query.sql", ""),
        Answer("I've reverted the change to search/query.sql."),
    ),
    _session(
        "fail",
        "login expired",
        Prompt("what changed in the last release?"),
        ApiError("Invalid API key · Please run /login"),
    ),
    _session(
        "fail",
        "writing is not permitted",
        Prompt("create a file hello.txt with a greeting"),
        DeniedEdit("hello.txt"),
        Answer("I wasn't able to create the file because I don't have permission to write in this directory."),
    ),
    _session(
        "fail",
        "dependency cannot be had",
        Prompt("run the training script and tell me the loss"),
        Run("python train.py", "ModuleNotFoundError: No module named 'torch'", 1),
        Run("pip install torch", "ERROR: Could not find a version that satisfies the requirement torch", 1),
        Answer(
            "I can't run the script: torch is not installed and pip cannot find a version for this Python. You would "
            "need Python 3.11 or an internal index."
        ),
    ),
    _session(
        "fail",
        "same complaint twice, agent has answered",
        Prompt("the tooltip is cut off on small screens"),
        Edit("ui/tooltip.css"),
        Answer("The tooltip now stays inside the viewport."),
        Prompt("it's still cut off"),
        Edit("ui/tooltip.css"),
        Answer("I increased the z-index and changed the overflow."),
        Prompt("no, that didn't work either. forget it"),
    ),
    # -- abandoned ---------------------------------------------------------------------------------------------------
    _session(
        "abandoned",
        "interrupted and left",
        Prompt("refactor the whole settings page to use hooks"),
        Read("ui/settings.jsx"),
        Edit("ui/settings.jsx"),
        Interrupt(),
    ),
    _session(
        "abandoned",
        "interrupted in a tool, then /exit",
        Prompt("clean up old branches"),
        Run("git branch -a", "  main\n  old-1\n  old-2"),
        Denied("git branch -D old-1 old-2"),
        Interrupt(in_tool=True),
        Typed("/exit"),
    ),
    _session(
        "abandoned",
        "cut while the tests run",
        Prompt("why is test_sync flaky?"),
        Read("tests/test_sync.py"),
        Cut("pytest tests/test_sync.py --count 100"),
    ),
    _session(
        "abandoned",
        "plan never answered",
        Prompt("add multi tenancy to the API"),
        Read("api/models.py"),
        Read("api/auth.py"),
        Plan("1. tenant column 2. middleware 3. migration", "open"),
    ),
    _session(
        "abandoned",
        "plan rejected",
        Prompt("move us from redux to zustand"),
        Read("src/store.ts"),
        Plan("Replace every slice by a store", "rejected"),
        Interrupt(in_tool=True),
    ),
    _session(
        "abandoned",
        "the last prompt stands alone",
        Prompt("list the endpoints that lack tests"),
        Run("grep -rn route api", "api/a.py:3\napi/b.py:9"),
        Answer("Two endpoints have no tests: /a and /b."),
        Prompt("ok write tests for both"),
    ),
    _session(
        "abandoned",
        "question of the agent unanswered",
        Prompt("set up the deployment"),
        Read("Dockerfile"),
        Ask("Which cloud should this be deployed to?"),
    ),
    _session(
        "abandoned",
        "agent asks in words, nobody answers",
        Prompt("rename the project"),
        Run("grep -rln oldname .", "setup.py\nREADME.md\nsrc/oldname/__init__.py"),
        Answer("Before I start I need to know the new name. What should the project be called?"),
    ),
    _session(
        "abandoned",
        "left during reading",
        Prompt("find the memory leak in the worker"),
        Read("worker/pool.py"),
        Read("worker/main.py"),
        Run("grep -n 'cache' worker/*.py", "worker/pool.py:14: cache = {}"),
    ),
    _session(
        "abandoned",
        "never mind",
        Prompt("can you convert the tests to vitest"),
        Read("package.json"),
        Interrupt(),
        Prompt("never mind, we stay on jest"),
    ),
    _session(
        "abandoned",
        "prompt waits in the queue when the window closes",
        Prompt("document every public function"),
        Read("lib/a.py"),
        Edit("lib/a.py"),
        Queued("also the private ones"),
        Cut("grep -c def lib/*.py"),
    ),
    _session(
        "abandoned",
        "stopped after compaction",
        Prompt("port the parser to rust"),
        Edit("src/lib.rs"),
        Run("cargo build", "   Compiling parser v0.1.0\n    Finished dev"),
        Compacted(),
        Edit("src/lexer.rs"),
        Interrupt(),
        Injected("<command-name>/clear</command-name>"),
    ),
    # -- success -----------------------------------------------------------------------------------------------------
    _session(
        "success",
        "fix, green tests, commit",
        Prompt("fix the off by one in pagination and commit"),
        Edit("src/pages.py"),
        Run("pytest -q", _PYTEST_GREEN),
        Run("git commit -am 'Last page shows all rows'", "[main 3f2a1bc] Last page shows all rows\n 1 file changed"),
        Answer("Done. The last page shows all rows now; all 24 tests pass and the change is committed."),
    ),
    _session(
        "success",
        "red, then green",
        Prompt("add a --json flag to the list command"),
        Edit("cli/list.py"),
        Run("pytest -q", _PYTEST_RED, 1),
        Edit("tests/test_cart.py"),
        Run("pytest -q", _PYTEST_GREEN),
        Answer("I added `--json` to `list` and adjusted the test that looked at the old output. Everything passes."),
    ),
    _session(
        "success",
        "question answered",
        Prompt("what does the retry decorator do when the function is async?"),
        Read("lib/retry.py"),
        Answer(
            "It awaits the coroutine inside the loop, so each attempt is awaited before the next one starts. The delay "
            "uses asyncio.sleep, see lib/retry.py line 40."
        ),
    ),
    _session(
        "success",
        "thanks at the end",
        Prompt("make the header sticky"),
        Edit("ui/header.css"),
        Answer("The header is sticky now."),
        Prompt("perfect, thanks!"),
        Answer("You're welcome!"),
    ),
    _session(
        "success",
        "corrected once, then fine",
        Prompt("put the button on the left"),
        Edit("ui/bar.css"),
        Answer("Moved the button to the left."),
        Prompt("no, I meant the left of the title, not of the page"),
        Edit("ui/bar.css"),
        Answer("The button now sits to the left of the title."),
    ),
    _session(
        "success",
        "plan accepted and carried out",
        Prompt("add rate limiting to the public API"),
        Plan("Token bucket per key", "accepted"),
        Edit("api/limit.py"),
        Run("pytest api -q", _PYTEST_GREEN),
        Answer("Rate limiting is in place: a token bucket per API key with 60 requests a minute. Tests pass."),
    ),
    _session(
        "success",
        "stopped once, went on, done",
        Prompt("update the changelog"),
        Read("CHANGELOG.md"),
        Interrupt(),
        Prompt("only for version 2.1 please"),
        Edit("CHANGELOG.md"),
        Answer("I've updated the 2.1 section of the changelog."),
    ),
    # -- unknown -----------------------------------------------------------------------------------------------------
    _session("unknown", "warm-up", Prompt("Warmup"), Answer("I'm ready to help with your code.")),
    _session("unknown", "greeting", Prompt("hi"), Answer("Hello! What would you like to work on today?")),
    _session("unknown", "only commands to the program", Typed("/model"), Typed("/exit")),
    _session("unknown", "only a caveat and a status", Injected("Caveat: The messages below were"), Typed("/status")),
)
