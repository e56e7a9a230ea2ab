"""The plot of a session, independent of any agent: who asks what, which tools run, what fails, who interrupts.

Belongs here: prompts, replies, steps and how they end. Not here: how agents log them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Literal

from helix_assets.demo.bait import secret
from helix_assets.demo.scenery import Pen, Repo, test_output

Kind = Literal["read", "search", "list", "edit", "write", "run", "test", "commit", "plan", "delegate"]
Fate = Literal["ok", "failed", "denied", "cut"]
Ending = Literal["done", "interrupted", "gave_up"]

# Quantiles of a log-normal (sigma 1.6, median 1), so that sizes need no libm and are the same on every machine.
_SPREAD = (0.08, 0.15, 0.24, 0.35, 0.49, 0.67, 0.82, 1.0, 1.22, 1.5, 2.05, 2.9, 4.2, 6.8, 12.0, 30.0)


def skewed(rng: Random, median: int) -> int:
    """Draw a size: half are below the median, a few far above."""
    place = rng.random() * (len(_SPREAD) - 1)
    low, share = int(place), place - int(place)
    return int(median * (_SPREAD[low] * (1 - share) + _SPREAD[low + 1] * share))


@dataclass(frozen=True)
class Step:
    """One tool call and what comes back."""

    kind: Kind
    path: str = ""
    command: str = ""
    old: str = ""
    new: str = ""
    output: str = ""
    exit_code: int = 0
    fate: Fate = "ok"
    helper: tuple[Reply, ...] = ()


@dataclass(frozen=True)
class Reply:
    """One answer of the model: a thought, some text, the tools it calls."""

    thought: str = ""
    text: str = ""
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Turn:
    """A person's prompt and all that follows from it."""

    prompt: str
    replies: tuple[Reply, ...]
    ending: Ending = "done"
    api_retries: int = 0
    queued: str = ""
    compacts: bool = False
    picture: bytes = b""


class Story:
    """Invents the turns of one session. `leaks` collects the secrets in it; `delegates` allows subagents."""

    def __init__(self, rng: Random, repo: Repo) -> None:
        self.rng = rng
        self.repo = repo
        self.pen = Pen(rng, repo)
        self.delegates = True
        self.leaks: list[tuple[str, str]] = []
        self._since_compaction = 0
        self._most_chars = 0
        self._slips: list[tuple[str, str]] = []
        self._plots: tuple[Callable[[int], list[Reply]], ...] = (self._fix, self._fix, self._feature, self._chores)

    def turn(self, room: int) -> Turn:
        """Invent the next turn, a short one if only little room (bytes) is left."""
        rng = self.rng
        size = max(120, min(room // 40, skewed(rng, 1400)))
        self._most_chars = min(60_000, max(400, room // 20))
        plot = self._question if room < 20_000 else rng.choice(self._plots)
        replies = plot(size)
        if self.delegates and room > 40_000 and rng.random() < 0.12:
            replies.insert(1, self._delegation(size))
        ending = self._ending(room)
        if ending == "done":
            replies.append(Reply(text=self.pen.prose(min(size, 900))))
        else:
            replies = self._cut(replies[: rng.randrange(1, len(replies) + 1)], ending)
        self._since_compaction += 1
        turn = Turn(
            prompt=self._prompt(),
            replies=tuple(replies),
            ending=ending,
            api_retries=rng.randrange(1, 5) if ending == "gave_up" or rng.random() < 0.03 else 0,
            queued=self.pen.prompt() if ending == "done" and rng.random() < 0.06 else "",
            compacts=self._since_compaction > 5 and rng.random() < 0.2,
            picture=self._picture(room),
        )
        if turn.compacts:
            self._since_compaction = 0
        self._keep_leaks(turn)
        return turn

    def _cut(self, replies: list[Reply], ending: Ending) -> list[Reply]:
        """Let an interruption hit the last tool call, every other time."""
        *before, last = replies
        if ending != "interrupted" or not last.steps or last.steps[-1].helper or self.rng.random() < 0.5:
            return replies
        cut = replace(last.steps[-1], fate="cut", exit_code=0)
        return [*before, replace(last, steps=(*last.steps[:-1], cut))]

    def _ending(self, room: int) -> Ending:
        chance = self.rng.random()
        if room > 9_000 and chance < 0.07:
            return "interrupted"
        return "gave_up" if chance > 0.98 else "done"

    def _prompt(self) -> str:
        text = self.pen.prompt()
        if self.rng.random() < 0.03:
            text += f"\n\nuse this for now: {self._leak()}"
        return text if self.rng.random() < 0.8 else f"{text}\n\n{self.pen.prose(300)}"

    def _picture(self, room: int) -> bytes:
        if room < 80_000 or self.rng.random() > 0.12:
            return b""
        return self.rng.randbytes(min(room // 10, skewed(self.rng, 24_000)))

    def _leak(self) -> str:
        self._slips.append(secret(self.rng))
        return self._slips[-1][1]

    def _keep_leaks(self, turn: Turn) -> None:
        """Drop the secrets of what an interruption cut off."""
        shown = [step.output for reply in turn.replies for step in reply.steps if step.fate == "ok"]
        text = "\n".join([turn.prompt, *shown])
        self.leaks += [slip for slip in self._slips if slip[1] in text]
        self._slips.clear()

    def _question(self, size: int) -> list[Reply]:
        edits = [self._reply(self._edit(size))] if self.rng.random() < 0.3 else []
        return [Reply(self.pen.prose(200), steps=(self._look(size),)), *edits]

    def _fix(self, size: int) -> list[Reply]:
        replies = [
            self._reply(self._test(size, fails=True)),
            self._reply(*(self._look(size) for _ in range(self.rng.randrange(1, 4)))),
            self._reply(self._edit(size)),
        ]
        while self.rng.random() < 0.35:
            replies += [self._reply(self._test(size, fails=True)), self._reply(self._look(size), self._edit(size))]
        return [*replies, self._reply(self._test(size)), *self._maybe_commit()]

    def _feature(self, size: int) -> list[Reply]:
        path = self.repo.path(self.rng.choice(self.repo.sources).replace(".", f"_{self.rng.randrange(100)}.", 1))
        wrote = self._fated(Step("write", path=path, new=self.pen.code(size)))
        return [
            self._reply(Step("plan", new=self.pen.prose(240))),
            self._reply(self._look(size), self._look(size)),
            self._reply(wrote),
            self._reply(self._edit(size), self._edit(size)),
            self._reply(self._test(size)),
            *self._maybe_commit(),
        ]

    def _chores(self, size: int) -> list[Reply]:
        build = Step("run", command=self.repo.build_command, output=self.pen.matches(size), exit_code=1, fate="failed")
        again = self._reply(self._fated(replace(build, output="", exit_code=0, fate="ok")))
        environment = [self._reply(self._environment(size))] if self.rng.random() < 0.08 else []
        # A retry is the same command twice without a change in between.
        return [*environment, self._reply(build), self._reply(build), self._reply(self._edit(size)), again]

    def _delegation(self, size: int) -> Reply:
        looks = [self._reply(*(self._look(size) for _ in range(2))) for _ in range(self.rng.randrange(1, 5))]
        report = Reply(text=self.pen.prose(min(2 * size, 4000)))
        step = Step("delegate", command=self.pen.prompt(), output=report.text, helper=(*looks, report))
        return Reply(text=self.pen.prose(80), steps=(step,))

    def _reply(self, *steps: Step) -> Reply:
        thought = self.pen.prose(skewed(self.rng, 240)) if self.rng.random() < 0.6 else ""
        return Reply(thought, self.pen.prose(120) if self.rng.random() < 0.5 or not steps else "", steps)

    def _look(self, size: int) -> Step:
        chars = min(self._most_chars, skewed(self.rng, size))
        path = self.repo.path(self.rng.choice(self.repo.sources))
        if self.rng.random() < 0.4:
            term = self.rng.choice(self.repo.terms)
            return self._fated(Step("search", path=self.repo.cwd, command=term, output=self.pen.matches(chars)))
        if self.rng.random() < 0.12:
            return Step("list", path=self.repo.cwd, output="\n".join(self.repo.sources + self.repo.tests))
        return self._fated(Step("read", path=path, output=self.pen.numbered(chars)))

    def _edit(self, size: int) -> Step:
        old = self.pen.code(min(size, 900))
        path = self.repo.path(self.rng.choice(self.repo.sources))
        return self._fated(Step("edit", path=path, old=old, new=self.pen.code(min(size, 1200))))

    def _test(self, size: int, *, fails: bool = False) -> Step:
        chars = min(self._most_chars, skewed(self.rng, size))
        output = test_output(self.pen, self.rng.randrange(1, 5) if fails else 0, chars)
        step = Step("test", command=self.repo.test_command, output=output, exit_code=int(fails))
        return replace(step, fate="failed" if fails else "ok")

    def _environment(self, size: int) -> Step:
        lines = f"PORT=8080\nSERVICE_CREDENTIAL={self._leak()}\nLOG_LEVEL=info\n"
        return Step("run", command="cat .env", output=lines + self.pen.code(min(size, 400)))

    def _maybe_commit(self) -> list[Reply]:
        if self.rng.random() < 0.6:
            return []
        branch, what = self.rng.choice(self.repo.branches), self.rng.choice(self.repo.terms)
        output = f"[{branch} {self.rng.getrandbits(28):07x}] Correct the {what}\n 2 files changed, 31 insertions(+)"
        step = Step("commit", command=f'git commit -am "Correct the {what}"', output=output)
        return [Reply(text=self.pen.prose(80), steps=(step,))]

    def _fated(self, step: Step) -> Step:
        chance = self.rng.random()
        if chance > 0.06:
            return step
        if chance < 0.025 and step.kind in ("edit", "write", "run"):
            return replace(step, fate="denied", output="", exit_code=0)
        return replace(step, fate="failed", output="", exit_code=1)
