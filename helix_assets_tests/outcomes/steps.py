"""What happens in a hand-made session, in words that fit every agent. How an agent logs it: the writers beside this."""

from __future__ import annotations

from typing import NamedTuple


class Prompt(NamedTuple):
    """A person asks; a turn begins."""

    text: str


class Say(NamedTuple):
    """The agent says something on its way."""

    text: str


class Answer(NamedTuple):
    """The agent's last words of a turn, which ends as it should."""

    text: str


class Run(NamedTuple):
    """A shell command with what it printed and its exit code."""

    command: str
    output: str = ""
    code: int = 0


class Read(NamedTuple):
    """A file is read."""

    path: str


class Edit(NamedTuple):
    """A file is edited; `failed` when the agent's text did not match."""

    path: str
    failed: bool = False


class Denied(NamedTuple):
    """The person refuses a command, or the permissions do."""

    command: str
    by_person: bool = True


class DeniedEdit(NamedTuple):
    """An edit that was refused."""

    path: str


class Cut(NamedTuple):
    """A command that never came back: its call has no result."""

    command: str


class Interrupt(NamedTuple):
    """The person stops the turn."""

    in_tool: bool = False


class ApiError(NamedTuple):
    """The turn ends because the service does not answer."""

    text: str


class Ask(NamedTuple):
    """The agent asks by its question tool and nobody answers."""

    question: str


class Plan(NamedTuple):
    """A plan is put forward: "open" (no answer), "rejected" or "accepted"."""

    text: str
    state: str


class Typed(NamedTuple):
    """A command to the program itself, such as /exit."""

    command: str


class Queued(NamedTuple):
    """A prompt typed while the agent worked, which it never got to."""

    text: str


class Compacted(NamedTuple):
    """The context was made smaller."""


class Injected(NamedTuple):
    """Text that stands in a person's place but is the program's."""

    text: str


Step = (
    Prompt | Say | Answer | Run | Read | Edit | Denied | DeniedEdit | Cut | Interrupt | ApiError | Ask | Plan | Typed
    | Queued | Compacted | Injected
)  # fmt: skip


class HandMade(NamedTuple):
    """A session with its label, which was written before any rule saw it."""

    flavor: str
    name: str
    label: str
    steps: tuple[Step, ...]


def session(flavor: str, label: str, name: str, *steps: Step) -> HandMade:
    """A hand-made session."""
    return HandMade(flavor, name, label, steps)
