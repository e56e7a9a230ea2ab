"""Proves the store: asks every promise that `helix verify` answers for. Not here: the promises (`prove.promises`)."""

from __future__ import annotations

from helix_assets.model.errors import StoreError
from helix_assets.prove.answer import Violation
from helix_assets.prove.promises import PROMISES
from helix_assets.settings import Settings
from helix_assets.store.store import Store, open_store


def verify(store: Store) -> list[Violation]:
    """Everything that is wrong with the store; an empty list proves it. Nothing is changed and no lock is taken."""
    found = (wrong for promise in PROMISES if promise.is_verified for wrong in promise.answer(store).wrong)
    return list(dict.fromkeys(found))


def is_sound(settings: Settings) -> bool:
    """Whether the store exists and nothing is wrong with it."""
    if not settings.catalog_path.is_file():
        return False
    try:
        store = open_store(settings)
    except StoreError:
        return False
    try:
        return not verify(store)
    finally:
        store.close()
