"""Which value wins, where files are looked for, and what is refused in which words."""

from pathlib import Path

import pytest

from helix_assets.agents import AGENTS
from helix_assets.model.errors import SettingsError
from helix_assets.settings import folders, load_settings
from helix_assets.settings.model import GIB, known_settings
from helix_assets.settings.refuse import RESERVED_VARIABLES
from helix_assets.settings.values import RedactionRule


class Machine:
    """A home folder with an environment of its own, and a helix.toml when one is written."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / "helix.toml"
        self.environ = {"HOME": str(home), "HELIX_DATA_DIR": str(home / "state")}

    def write(self, text: str) -> None:
        self.config.write_text(text)
        self.environ["HELIX_CONFIG"] = str(self.config)

    def refusal(self) -> str:
        """The message with which the settings are refused, without the folder."""
        with pytest.raises(SettingsError) as caught:
            load_settings(self.environ)
        return str(caught.value).replace(f"{self.home}/", "")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package were installed and no checkout were around."""
    monkeypatch.setattr(folders, "checkout", lambda: None)


def test_defaults_are_the_designs(machine: Machine) -> None:
    retention = load_settings(machine.environ | {"HELIX_CONFIG": "/dev/null"}).retention
    assert (retention.raw_soft_cap_bytes, retention.raw_hard_cap_bytes) == (4 * GIB, 6 * GIB)
    assert (retention.raw_max_age_days, retention.distilled_cap_bytes, retention.cadence) == (45, GIB, "daily")


@pytest.mark.parametrize("section", ["retention", "session_memory.retention"])
def test_both_names_of_the_retention_section_are_read(machine: Machine, section: str) -> None:
    machine.write(f'[{section}]\nraw_soft_cap_bytes = "1GiB"\ncadence = "on-hook"\n')
    retention = load_settings(machine.environ).retention
    assert (retention.raw_soft_cap_bytes, retention.cadence) == (GIB, "on-hook")


def test_variable_wins_over_file_and_the_origin_says_so(machine: Machine) -> None:
    machine.write("[retention]\nraw_max_age_days = 10\n\nraw_hard_cap_bytes = '9GiB'\n")
    settings = load_settings(machine.environ | {"HELIX_RAW_MAX_AGE_DAYS": "20"})
    assert settings.retention.raw_max_age_days == 20
    assert settings.origins["retention.raw_max_age_days"] == "HELIX_RAW_MAX_AGE_DAYS"
    assert settings.origins["retention.raw_hard_cap_bytes"] == f"{machine.config}:4"


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("HELIX_RAW_SOFT_CAP_BYTES", "500MB", "retention.raw_soft_cap_bytes", 500_000_000),
        ("HELIX_CADENCE", "weekly", "retention.cadence", "weekly"),
        ("HELIX_AGENTS", "codex, claude", "sources.agents", ("codex", "claude")),
        ("HELIX_EXCLUDE_REPOS", '["a,b", "c"]', "exclude.repos", ("a,b", "c")),
        ("HELIX_REPO_DOMAINS", '{helix = "forge"}', "repos.domains", {"helix": "forge"}),
        ("HELIX_REDACTION_RULES", '[{name = "x", pattern = "x+"}]', "redaction.rules", (RedactionRule("x", "x+"),)),
        ("HELIX_PRICES", '{"m" = {input = 2, output = 3}}', "prices", {"m": {"input": 2.0, "output": 3.0}}),
        ("HELIX_WEB_PORT", "8080", "web.port", 8080),
    ],
)
def test_each_kind_of_setting_can_be_a_variable(
    machine: Machine, variable: str, text: str, name: str, value: object
) -> None:
    found: object = load_settings(machine.environ | {variable: text, "HELIX_CONFIG": "/dev/null"})
    for part in name.split("."):
        found = getattr(found, part)
    assert found == value


def test_each_agent_has_its_settings_in_their_place() -> None:
    named = [
        ("sources.agents", "HELIX_AGENTS"),
        ("sources.claude_roots", "HELIX_CLAUDE_ROOTS"),
        ("sources.codex_roots", "HELIX_CODEX_ROOTS"),
        ("sources.grok_roots", "HELIX_GROK_ROOTS"),
        ("sources.claude_cleanup_days", "HELIX_CLAUDE_CLEANUP_DAYS"),
        ("sources.other_roots", "HELIX_OTHER_ROOTS"),
    ]
    found = [(item.name, item.env) for item in known_settings().values()]
    assert [item for item in found if item in named] == named


def test_every_setting_has_a_variable_of_its_own() -> None:
    variables = [item.env for item in known_settings().values()]
    assert len(set(variables)) == len(variables)
    assert not set(variables) & RESERVED_VARIABLES


@pytest.mark.parametrize("variable", sorted(RESERVED_VARIABLES))
def test_session_close_variables_are_no_settings(machine: Machine, variable: str) -> None:
    plain = load_settings(machine.environ)
    assert load_settings(machine.environ | {variable: "7"}) == plain


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            '[retention]\n# soft\nraw_soft_cap = "1GiB"\n',
            "helix.toml:3: unknown key 'raw_soft_cap' - did you mean 'raw_soft_cap_bytes'?",
        ),
        ("[retentoin]\nx = 1\n", "helix.toml:1: unknown key 'retentoin' - did you mean 'retention'?"),
        ("cadence = 'daily'\n", "helix.toml:1: unknown key 'cadence' - it belongs under [retention]"),
        ("[web]\ncadence = 'daily'\n", "helix.toml:2: unknown key 'cadence' - it belongs under [retention]"),
        ("retention = 3\n", "helix.toml:1: 'retention' is a section: write [retention]"),
        (
            "[session_memory.detect]\nx = 1\n",
            "helix.toml:1: [session_memory] may only contain [session_memory.retention]",
        ),
        ("[retention]\ncadence = 'hourly'\n", "helix.toml:2: cadence 'hourly' is not one of daily, weekly, on-hook"),
        ("[retention]\nraw_max_age_days = 0\n", "helix.toml:2: raw_max_age_days must be greater than zero, not 0"),
        ("[retention]\nraw_max_age_days = true\n", "helix.toml:2: raw_max_age_days True is not a whole number"),
        ("\n[retention\n", "helix.toml:2: Expected ']' at the end of a table declaration"),
        (
            "[retention]\nraw_max_age_days = 1\n[session_memory.retention]\nraw_max_age_days = 2\n",
            "helix.toml:4: 'raw_max_age_days' is already set at helix.toml:2",
        ),
        (
            "[retention]\nraw_soft_cap_bytes = '6GiB'\nraw_hard_cap_bytes = '4GiB'\n",
            "helix.toml:3: raw_hard_cap_bytes (4294967296) is below raw_soft_cap_bytes (6442450944): "
            "eviction must begin before the hard cap is reached",
        ),
        (
            "[retention]\nraw_soft_cap_bytes = ''\n",
            "helix.toml:2: raw_soft_cap_bytes is empty: use a size like '4GiB', or leave the setting out",
        ),
        (
            "[retention]\nraw_hard_cap_bytes = '-1GiB'\n",
            "helix.toml:2: raw_hard_cap_bytes must be greater than zero, not -1073741824",
        ),
        (
            "[tasks]\npatterns = [\n  'a = b',\n  '(',\n]\n",
            "helix.toml:2: patterns '(' is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        ("[sources]\nagents = ['cursor']\n", f"helix.toml:2: agents 'cursor' is not one of {', '.join(AGENTS)}"),
    ],
)
def test_refusal_names_line_and_reason(machine: Machine, text: str, refusal: str) -> None:
    machine.write(text)
    assert machine.refusal() == refusal


@pytest.mark.parametrize(
    ("variable", "text", "refusal"),
    [
        ("HELIX_RAW_SOFT_CAP", "1GiB", "unknown variable - did you mean 'HELIX_RAW_SOFT_CAP_BYTES'?"),
        ("HELIX_RAW_SOFT_CAP_BYTES", "", "raw_soft_cap_bytes is empty: give a value, or leave the setting out"),
        ("HELIX_RAW_MAX_AGE_DAYS", "soon", "raw_max_age_days 'soon' is not a whole number"),
        ("HELIX_DATA_DIR", "data", "'data' is not an absolute path: begin it with '/' or '~/'"),
        ("HELIX_WEB_PORT", "70000", "port 70000 is not a port: use 1 to 65535"),
    ],
)
def test_refusal_names_the_variable(machine: Machine, variable: str, text: str, refusal: str) -> None:
    machine.environ[variable] = text
    assert machine.refusal() == f"{variable}: {refusal}"


def test_hard_cap_below_the_default_soft_cap_is_refused(machine: Machine) -> None:
    machine.environ["HELIX_RAW_HARD_CAP_BYTES"] = "1GiB"
    assert machine.refusal().startswith("HELIX_RAW_HARD_CAP_BYTES: raw_hard_cap_bytes (1073741824) is below")


def test_bad_value_in_the_file_is_refused_though_a_variable_overrides_it(machine: Machine) -> None:
    machine.write("[web]\nport = 0\n")
    machine.environ["HELIX_WEB_PORT"] = "3001"
    assert machine.refusal() == "helix.toml:2: port must be greater than zero, not 0"


def test_named_config_file_must_exist(machine: Machine) -> None:
    machine.environ["HELIX_CONFIG"] = str(machine.config)
    assert machine.refusal() == "helix.toml: there is no such file"


def test_relative_config_file_is_refused(machine: Machine) -> None:
    machine.environ["HELIX_CONFIG"] = "helix.toml"
    assert machine.refusal().startswith("HELIX_CONFIG: 'helix.toml' is not an absolute path")


@pytest.mark.usefixtures("installed")
def test_xdg_folders_serve_an_installed_package(machine: Machine) -> None:
    folder = machine.home / ".config" / "helix_assets"
    folder.mkdir(parents=True)
    (folder / "helix.toml").write_text("[web]\nport = 4000\n")
    del machine.environ["HELIX_DATA_DIR"]
    settings = load_settings(machine.environ)
    assert settings.web.port == 4000
    assert settings.catalog_path == machine.home / ".local/share/helix_assets/helix.db"


def test_working_folder_has_no_say(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_settings({"HOME": str(machine.home)})
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    (elsewhere / "helix.toml").write_text("[web]\nport = 4000\n")
    monkeypatch.chdir(elsewhere)
    assert load_settings({"HOME": str(machine.home)}) == before


def test_data_dir_of_the_file_may_begin_with_a_tilde(machine: Machine) -> None:
    machine.write("data_dir = '~/memory'\n")
    del machine.environ["HELIX_DATA_DIR"]
    assert load_settings(machine.environ).data_dir == machine.home / "memory"


def test_state_inside_an_agents_folder_is_refused(machine: Machine) -> None:
    machine.environ["HELIX_DATA_DIR"] = str(machine.home / ".codex" / "memory")
    assert "data_dir .codex/memory lies inside codex's own folder .codex" in machine.refusal()


def test_excluded_agent_has_no_roots(machine: Machine) -> None:
    machine.write("[exclude]\nagents = ['grok']\n[sources]\nclaude_roots = ['~/old/.claude']\n")
    roots = load_settings(machine.environ).roots
    assert list(roots) == [agent for agent in AGENTS if agent != "grok"]
    assert roots["claude"][-1] == machine.home / "old/.claude"


def test_tilde_is_expanded_in_repo_and_exclusion_paths(machine: Machine) -> None:
    machine.write("[exclude]\npaths = ['~/private/*']\n[repos.paths]\n'~/src/helix' = 'helix'\n")
    settings = load_settings(machine.environ)
    assert settings.exclude.paths == (f"{machine.home}/private/*",)
    assert settings.repos.paths == {f"{machine.home}/src/helix": "helix"}
