"""The fields of a row, read from its row class, where each is `Annotated` with what it means.

Whatever handles all fields uses `fields_of`: the Parquet schema, the views, the export, the columns in Dagster,
redacting again, the tables in the docs. So a field is written once. Not here: the row classes (`model.event`,
`model.facts`).
"""

from typing import Any, NamedTuple, get_args

TEXT, JSON, LINES = "text", "json", "lines"
"""How a text is redacted: as plain text, each text inside its JSON, or as a line of a log."""


class About(NamedTuple):
    """What a row class says about a field.

    A string is text of a log and has to be redacted, unless it `is_ours`: a word that this program chose. `views` are
    the views over stored rows that show the field. Each fact has its own view.
    """

    meaning: str
    is_ours: bool = False
    is_json: bool = False
    views: tuple[str, ...] = ("events",)
    is_exported: bool = True


class Field(NamedTuple):
    """One field of a row. `text` is how its text is redacted, None if it contains no text of a log."""

    name: str
    type: type
    text: str | None
    meaning: str
    views: tuple[str, ...] = ()
    is_exported: bool = True

    @property
    def is_text(self) -> bool:
        """Whether it is redacted."""
        return self.text is not None


SESSION_UID = Field("session_uid", str, TEXT, "the session: agent and the agent's own id")
"""The first field of every stored row and fact, before the fields of its class."""


def fields_of(row_class: type[tuple[Any, ...]]) -> tuple[Field, ...]:
    """The fields of a row class in their order."""
    return tuple(_field(name, hint) for name, hint in row_class.__annotations__.items())


def _field(name: str, hint: Any) -> Field:
    held, about = get_args(hint)
    kind = next(kind for kind in (*get_args(held), held) if kind is not type(None))
    text = None
    if kind is bytes:
        text = LINES
    elif kind is str and not about.is_ours:
        text = JSON if about.is_json else TEXT
    return Field(name, kind, text, about.meaning, about.views, about.is_exported)
