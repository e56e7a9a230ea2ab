"""What an agent's last words say: tables of sentences in many phrasings, read by hand."""

from __future__ import annotations

import time

import pytest

from helix_assets.derive.outcome import saying

DONE = (
    "Done! The config is loaded once now.",
    "✅ All done. The migration ran on staging.",
    "I've updated both files and reran the linter.",
    "I have now successfully merged the branch.",
    "Fixed the race by taking the lock before reading.",
    "The new endpoint has been added to the router.",
    "Both flags were removed from the CLI.",
    "All 214 tests pass.",
    "The build succeeds and the page renders.",
    "The menu now shows the user's initials.",
    "Here's the script you asked for:",
    "- Renamed `foo` to `bar` - Updated the docs",
    "Refactoring complete. ## Summary",
    "Committed as 3fa9c21 and pushed to origin/main.",
    "The telemetry flag logic has been inverted.",
    "CLAUDE.md has been created with the project's structure.",
    "PR opened: https://example.com/pull/12",
    "Spawned 4 background agents to review the modules.",
    "7 remaining stories created and linked to the epic.",
    "All tests pass: 51 passed, 0 failed.",
    "Both PRs merged and the release tagged.",
    "The migration has run on staging and production.",
    "I rebuilt the index and re-ran the importer.",
    "Wired the new handler into the router and covered it with tests.",
    "Done, the spinner goes away as soon as the data arrives.",
    "Everything compiles and 214/214 tests are green.",
    "Your dashboard is live at https://example.com.",
    "The cron job now fires at 6 am.",
    "Swapped moment for date-fns across 14 files.",
    "I took out the dead code and inlined the helper.",
    "That fixed it — the login page renders again.",
    "Bumped the version to 2.4.0, tagged it, and pushed.",
    "Tickets ENG-101 through ENG-107 have been filed.",
    "✅ Auth middleware",
    "Here is the report you asked for.",
    "Analysis complete. The report is in docs/report.md.",
    "The race is gone: 500 runs, no failures.",
    "Users can now sign in with a passkey.",
    "Nothing else is needed on your side; the config is in place.",
    "We've consolidated the three parsers into one.",
    "Rewrote the query to use a window function.",
    "Ran the formatter over the whole tree.",
    "Worktree cleaned up.",
    "Issue #42 closed.",
    "The flaky test no longer fails because the clock is mocked.",
    "Deployed to Cloud Run; health check returns 200.",
    "12 files changed, 340 insertions, 20 deletions.",
    "Build succeeded in 12s with 0 warnings.",
    "It works now.",
    "Kicked off the nightly job with the new flags.",
    "The docs have also been regenerated.",
    "Both endpoints were renamed and the clients adjusted.",
    "Saved to ./out/summary.csv.",
    "Implemented! The sidebar collapses below 600 px.",
    "Successfully published 3 packages.",
    "I've gone ahead and archived the old boards.",
    "Added: retry with backoff. Removed: the global lock.",
    "Lint, types and tests all pass.",
    "Set the timeout to 30s and redeployed.",
    "Created branch `fix/login` and opened a PR.",
    "The table is sorted by date now.",
    "All done — let me know if you'd like any changes.",
    "No more type errors.",
    "Captured the screenshots and attached them to the ticket.",
    "Refactored. Net -212 lines.",
    "Cleaned up 3 stale branches.",
    "Verified end-to-end in the browser: checkout completes.",
    "The image has been shrunk, and the header realigned.",
    "Finished the sweep over all 40 modules",
    "Two follow-ups recorded in TODO.md.",
    "The PR is up: https://github.com/a/b/pull/3",
    "Tests are passing again after the rename.",
    "Undid the accidental change in settings.py.",
    "I wrote a small script that does this nightly.",
    "The three workers have been spun up and are polling the queue.",
    "Merged into main as 4f2a9c1.",
    "I traced it to a stale lock and cleared it.",
    "Everything's wired together.",
    "Typos corrected in the README and both guides.",
    "We're good: CI is green on all platforms.",
    "The endpoint returns 404 for unknown ids now.",
    "Switched the default to WAL mode, which halves the write latency.",
    "Pull request opened against develop.",
    "I extracted the shared logic into utils/date.ts so both pages use it.",
    "Created 9 stories, 2 spikes and 1 epic.",
    "The deployment finished without errors.",
    "I've double-checked the totals against the ledger and they agree.",
    "Restored the file from git and reapplied only your change.",
    "Your commit is pushed.",
    "Both bugs are squashed.",
    "Docs: updated. Tests: 18 passed.",
    "Launched the training run; logs go to runs/42.",
    "Reverted.",
    "Ready for review!",
    "I have prepared the invoice and put it in Drafts.",
    "Translated all 48 strings to French.",
    "Everything passes locally (python 3.11 and 3.12).",
    "I squashed the commits and force-pushed.",
    "Emails are sent again.",
    "Task complete.",
    "The leak is plugged.",
    "Three subagents finished; their findings are merged into REPORT.md.",
)
MISSED = (
    "Dockerfile slimmed down from 1.2 GB to 180 MB.",
    "Memory usage dropped from 900 MB to 120 MB.",
    "The feature flag is enabled for everyone.",
    "Coverage went from 71% to 84%.",
    "Nice and tidy: one module instead of five.",
    "The script downloads all 300 pages and stores them in data/.",
    "The PDF has 12 pages and opens fine.",
    "Now the CLI prints a friendly error.",
    "The dependency is pinned to 4.2.1 and the lockfile regenerated.",
    "**Result**: login latency is down 40 %.",
)
"""Results that the rules do not see: present tense, or an active verb behind its subject."""
NOT_DONE = (
    "The test still fails with the same message.",
    "I was unable to connect to the database.",
    "I couldn't get the emulator to start.",
    "I'm blocked by the missing credentials.",
    "12 errors remain in the generated code.",
    "I can't run the suite here because docker is missing.",
    "After four attempts I'm giving up on this approach.",
    "I was not able to reproduce the crash.",
    "The import still fails with the same traceback.",
    "I could not get the tests to pass.",
    "Three tests are still failing.",
    "3 failures remain.",
    "I couldn't find a way to make this work.",
    "The page keeps crashing on load.",
    "I'm stuck on the signing step.",
    "The installation still doesn't work; I have no more ideas.",
    "I don't have permission to push to this repository.",
    "I can't access external websites.",
    "After several attempts I gave up.",
    "I wasn't able to finish the migration.",
    "Nothing was changed: every edit was refused.",
    "I did not manage to fix the layout.",
)
NOT_A_FAILURE = (
    "7 remaining stories created.",
    "The remaining tests pass.",
    "The issues that remained are fixed.",
    "No issues remain.",
    "No errors left.",
    "Fixed the failing test.",
    "The retry handles failed requests.",
    "The remaining work is documented in TODO.md.",
    "Failed logins are now logged.",
    "All blocked tasks were reassigned.",
    "The error message says which command failed.",
    "Errors remain readable in the log.",
    "All 12 tests remain green.",
    "I fixed the bug that kept crashing the app.",
    "The app can't be started twice now.",
)
NAMES_A_FAILURE = (
    "The deploy failed: the image could not be pulled.",
    "The package cannot be installed without network access.",
    "Unfortunately the import does not work on Windows.",
    "The push was rejected because the branch is protected.",
)
NEITHER = (
    "The function reads the file line by line and yields records.",
    "Retries are counted in worker.py, line 40.",
    "It depends on how often the cache is cold.",
    "The loop ends when the queue is empty.",
    "The function reads the file line by line.",
    "There are two ways to do this: a queue or a lock.",
    "I'd suggest starting with the parser.",
    "You could add an index on user_id.",
    "The bug is in the scheduler: it drops the last item.",
    "Should I go ahead and delete the branch?",
    "Would you like me to also update the docs?",
    "Let me run the tests first.",
    "I'll start with the data model and then move on to the API.",
    "Next steps: add tests, update the docs, deploy.",
    "To fix this you need to upgrade the project.",
    "Please paste the output of the command.",
    "The value is used by three callers.",
    "This is based on the assumption that ids are unique.",
    "If the build is green we can merge.",
    "Once the tests pass I will push.",
    "The plan has three phases.",
    "It seems the cache is invalidated too late.",
    "The config file is not loaded because the path is wrong.",
    "The config could be moved to the root.",
    "We need to decide which database to use.",
    "Port 80 requires root access.",
    "I don't see any photo in the project folder yet.",
    "Goodbye",
    "Hello! How can I help you today?",
    "The tests still need to be updated.",
    "Looking at the auth module...",
    "The header isn't sticky yet.",
    "The request is expected to time out.",
    "Events are stored in a ring buffer and flushed by a worker.",
    "When the user logs in, a token is created.",
    "Which option do you prefer?",
    "I want to understand the flow before changing anything.",
    "I'm waiting for your go-ahead.",
    "This needs to be fixed in the cloud console.",
    "A cleaner approach would be to use a context manager.",
    "The repository has two packages, each with its own tests.",
    "This happens because the cache key ignores the locale.",
    "Which of the two should I take?",
    "I can do that once you confirm the name.",
    "Do you want a summary as well?",
    "The endpoint expects a JSON body.",
    "We should add a test before changing it.",
    "I'm going to look at the scheduler next.",
    "Let me check the logs:",
    "First I need to understand how the queue is drained.",
    "It depends on how large the table gets.",
    "Here are three options:",
    "My recommendation is option B.",
    "The class holds a reference to the pool.",
    "Sorry, I can't help with that.",
    "Please share the stack trace.",
    "The index is built lazily when the first query arrives.",
    "Rows are deleted after 30 days by the janitor.",
    "I will now refactor the module.",
    "The login form posts to /session and the server answers with a cookie.",
    "Not sure what you mean by that.",
    "The tests were written for the old API.",
    "That would require changing the schema.",
    "In the meantime you may use the old flag.",
)
ASKS = (
    "There are two options. Which one would you like me to take?",
    "I stopped before dropping the table. Should I go ahead?",
    "What should the new name be? Please tell me.",
    "Please confirm that I may delete these branches.",
    "Do you want me to keep the old endpoint?",
)
ANNOUNCES = (
    "Found it. Let me fix the import:",
    "Next, I'll run the tests.",
    "Now I'll update the callers",
    "The setup is committed. Now I'm running the attach step…",
    "The types are fixed. Let me run the whole suite now:",
    "Good. Now I will look at the callers.",
    "Checking the logs…",
)
NO_ANNOUNCEMENT = (
    "Let me know if anything is unclear.",
    "I'll be happy to adjust it.",
    "The tests pass.",
    "I'll leave the branch as it is.",
    "I'll wait for your decision.",
    "Now the command prints a friendly error.",
    "Using the lock avoids the race.",
)


@pytest.mark.parametrize("text", DONE)
def test_what_says_done(text: str) -> None:
    assert saying.says_done(text)
    assert not saying.says_not_done(text)


@pytest.mark.parametrize("text", MISSED)
def test_results_that_are_not_seen_are_at_least_no_failures(text: str) -> None:
    assert not saying.says_done(text)
    assert not saying.says_not_done(text)


@pytest.mark.parametrize("text", NOT_DONE)
def test_what_says_not_done(text: str) -> None:
    assert saying.says_not_done(text, has_failures=False)
    assert not saying.says_done(text)


@pytest.mark.parametrize("text", NOT_A_FAILURE)
def test_failures_that_were_mended_or_are_only_named_are_none(text: str) -> None:
    assert not saying.says_not_done(text, has_failures=False)


@pytest.mark.parametrize("text", NAMES_A_FAILURE)
def test_failure_that_is_named_counts_only_where_a_call_failed(text: str) -> None:
    assert saying.says_not_done(text)
    assert not saying.says_not_done(text, has_failures=False)


@pytest.mark.parametrize("text", NEITHER)
def test_explanation_plan_or_question_says_neither(text: str) -> None:
    assert not saying.says_done(text)
    assert not saying.says_not_done(text)


@pytest.mark.parametrize("text", ASKS)
def test_what_asks_back(text: str) -> None:
    assert saying.asks_back(text)


@pytest.mark.parametrize("text", ANNOUNCES)
def test_what_announces_a_step(text: str) -> None:
    assert saying.announces(text)


@pytest.mark.parametrize("text", NO_ANNOUNCEMENT)
def test_politeness_announces_nothing(text: str) -> None:
    assert not saying.announces(text)


@pytest.mark.parametrize("result", ["All tests pass: 51 passed.", "Spawned four workers.", "The page is live."])
@pytest.mark.parametrize("shape", ["{}", "- {}", "1. {}", "## Outcome\n\n{}", "> {}", "| step | {} |", "**{}**"])
def test_result_counts_wherever_it_stands(result: str, shape: str) -> None:
    around = "The parser walks over the tokens and yields a node for each of them.\n" * 12
    assert saying.says_done(f"{around}\n{shape.format(result)}\n\n{around}Would you like a diagram of it?")


@pytest.mark.parametrize("quoted", ["```\nAll tests pass. Fixed.\n```", "`updated 3 files` is what it prints"])
def test_code_says_nothing(quoted: str) -> None:
    assert not saying.says_done(quoted)


FAILS_AT_AN_END = (
    "The tests still fail. I renamed the helper and added a log line.",
    "I renamed the helper and added a log line. The tests still fail; I could not resolve the rest.",
)
FAILS_AS_A_REMARK = (
    "I added the flag. I couldn't run the browser tests here. The docs are updated. Let me know what you think.",
    "Fixed the parser, all 12 tests pass. I couldn't verify it on Windows.",
    "Done. Two tests still fail, they are unrelated to this change.",
    "I migrated the store. On the old branch the build still fails. The index was rebuilt. All green. Ready to merge.",
)


@pytest.mark.parametrize("text", FAILS_AT_AN_END)
def test_message_that_begins_or_ends_with_failure_failed_in_spite_of_results(text: str) -> None:
    assert saying.says_done(text)
    assert saying.ends_on_failure(text)


@pytest.mark.parametrize("text", FAILS_AS_A_REMARK)
def test_remark_beside_results_is_no_failure(text: str) -> None:
    assert saying.says_done(text)
    assert not saying.ends_on_failure(text)


@pytest.mark.parametrize(
    "part", ["still ", "now, ", "i'll ", "- ", "|", "```\n", "`", "has been ", "7 a ", "x-", "is "]
)
def test_long_hostile_text_is_read_in_no_time(part: str) -> None:
    began = time.process_time()
    for ask in (saying.says_done, saying.says_not_done, saying.ends_on_failure, saying.announces, saying.asks_back):
        ask(part * 4000)
    assert time.process_time() - began < 1
