"""Where the agents' logs are looked for."""

from pathlib import Path

from helix_assets.settings import folders


def test_home_serves_when_no_agent_names_a_folder(tmp_path: Path) -> None:
    roots = folders.agent_roots({"HOME": str(tmp_path)})
    desktop = tmp_path / "Library/Application Support/Claude/local-agent-mode-sessions"
    assert roots["claude"] == (tmp_path / ".claude", tmp_path / ".config/claude", desktop)
    assert roots["codex"] == (tmp_path / ".codex",)
    assert roots["grok"] == (tmp_path / ".grok",)


def test_agents_variable_replaces_its_folders() -> None:
    roots = folders.agent_roots(
        {"HOME": "/h", "CLAUDE_CONFIG_DIR": "/a, ~/b,/a", "CODEX_HOME": "/c", "GROK_HOME": "/g"}
    )
    assert roots["claude"] == (Path("/a"), Path("/h/b"))
    assert (roots["codex"], roots["grok"]) == ((Path("/c"),), (Path("/g"),))


def test_empty_agents_variable_counts_as_unset() -> None:
    assert folders.agent_roots({"HOME": "/h", "CODEX_HOME": ""})["codex"] == (Path("/h/.codex"),)


def test_relative_xdg_folder_is_ignored() -> None:
    assert folders.config_candidates({"HOME": "/h", "XDG_CONFIG_HOME": "conf"})[-1].is_relative_to("/h/.config")


def test_checkout_is_the_folder_of_this_project() -> None:
    assert folders.checkout() == Path(__file__).resolve().parents[2]
