"""`helix config`: the settings in force and where each comes from."""

import json
import os
from pathlib import Path

import click

from helix_assets.cli.output import Column, Table, emit, human_size, to_json
from helix_assets.settings import Settings, load_settings
from helix_assets.settings.model import known_settings

_DEFAULT = "default"
_WIDEST = 60


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def config(as_json: bool) -> None:
    """Show the settings in force, where each comes from, and the folders that follow from them."""
    settings = load_settings()
    emit(describe(settings), as_json, [_places(settings), _settings(settings)])


def describe(settings: Settings) -> dict[str, object]:
    """The settings as plain data: paths first, then value and origin by dotted name."""
    return {
        "config_file": settings.config_file,
        "data_dir": settings.data_dir,
        "catalog": settings.catalog_path,
        "roots": settings.roots,
        "settings": {
            item.name: {
                "value": value_of(settings, item.key),
                "origin": settings.origins.get(item.name, _DEFAULT),
                "variable": item.env,
            }
            for item in known_settings().values()
        },
    }


def value_of(settings: Settings, key: tuple[str, ...]) -> object:
    """The value of the setting with this key."""
    value: object = settings
    for name in key:
        value = getattr(value, name)
    return value


def _places(settings: Settings) -> Table:
    rows = [("config file", str(settings.config_file or "none")), ("catalog", str(settings.catalog_path))]
    rows += [
        (f"{agent} logs", f"{root}{'' if os.path.isdir(root) else ' (not there)'}")
        for agent, roots in settings.roots.items()
        for root in roots
    ]
    return Table([Column("place"), Column("path")], rows)


def _settings(settings: Settings) -> Table:
    rows = [
        (item.name, _text(item.name, value_of(settings, item.key)), settings.origins.get(item.name, _DEFAULT), item.env)
        for item in known_settings().values()
    ]
    return Table([Column("setting"), Column("value"), Column("from"), Column("variable")], rows)


def _text(name: str, value: object) -> str:
    if isinstance(value, int) and name.endswith("_bytes"):
        return human_size(value)
    if isinstance(value, str | int | Path):
        return str(value)
    text = json.dumps(json.loads(to_json(value)), ensure_ascii=False)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}… (--json has it all)"
