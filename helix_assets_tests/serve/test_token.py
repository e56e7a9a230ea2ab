"""The token file of a UI that other machines may reach."""

from pathlib import Path

import pytest

from helix_assets.model.errors import StoreError
from helix_assets.serve.token import ui_token


def test_the_token_is_made_once_and_private(tmp_path: Path) -> None:
    token = ui_token(tmp_path)
    assert ui_token(tmp_path) == token
    assert (tmp_path / "ui.token").stat().st_mode & 0o777 == 0o600


def test_two_homes_have_two_tokens(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert ui_token(tmp_path) != ui_token(tmp_path / "other")


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    ui_token(tmp_path)
    (tmp_path / "ui.token").chmod(0o644)
    with pytest.raises(StoreError, match="delete the file"):
        ui_token(tmp_path)


def test_a_link_is_no_token_file(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("x" * 43)
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "ui.token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError):
        ui_token(tmp_path)


@pytest.mark.parametrize("text", ["", "short\n"])
def test_a_cut_off_token_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "ui.token").touch(mode=0o600)
    (tmp_path / "ui.token").write_text(text)
    with pytest.raises(StoreError, match="too short"):
        ui_token(tmp_path)
