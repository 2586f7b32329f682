"""Settings: where they come from, which wins, and what is refused."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import twinraven
from tests.other_user import as_somebody_else
from twinraven.app import Settings, describe_settings, load_settings, settings_as_rows
from twinraven.foundation.errors import InvalidSetting
from twinraven.foundation.homes import find_home
from twinraven.foundation.setting_kinds import mask_passwords


def load(folder: Path, text: str | None = None, **env: str) -> Settings:
    if text is not None:
        (folder / "twinraven.yaml").write_text(text, "utf-8")
    return load_settings(folder / ".twinraven", env)


def values(loaded: Settings) -> dict[str, Any]:
    return {row.key: row.value for row in settings_as_rows(loaded)}


def test_a_home_that_may_not_be_entered_is_named(tmp_path: Path) -> None:
    """Whoever may not look into the home is told which one it is and what to do, not what the system said of a file."""
    home = tmp_path / ".twinraven"
    home.mkdir(mode=0o000)
    with as_somebody_else(), pytest.raises(InvalidSetting, match="cannot be entered: Permission denied") as refusal:
        load_settings(home, {})
    home.chmod(0o700)
    assert str(home) in refusal.value.details["fix"]


def test_defaults_are_the_documented_ones(tmp_path: Path) -> None:
    """Without file and environment every setting has its default, the database lies in the home."""
    loaded = load(tmp_path)
    shown = {item.key: item.default for item in describe_settings()}
    assert loaded.storage.url == f"sqlite:///{tmp_path}/.twinraven/twinraven.db"
    assert shown.pop("storage.url") == "sqlite:///<home>/twinraven.db"
    for key, value in values(loaded).items():
        if key != "storage.url":
            expected = "none" if value in (None, ()) else str(value).lower() if isinstance(value, bool) else str(value)
            assert shown[key] == expected
    assert {row.origin for row in settings_as_rows(loaded)} == {"default"}


def test_the_seeds_registry_block_is_taken_verbatim(tmp_path: Path) -> None:
    """The configuration block of the registry's design loads as it is printed there, comments and all."""
    loaded = load(
        tmp_path,
        """
registry:
  storage_dir: tools/generated # Tool definition directory
  auto_retire_after_days: 30 # Retire unused tools after N days
  auto_retire_on_drift: false # Auto-retire on drift detection
  drift_threshold: 0.5 # Min support ratio to avoid drift flag
  failure_spike_threshold: 0.3 # Max failure rate before spike retirement
  maintenance_schedule: weekly # Staleness/drift check frequency
""",
    )
    given_there = [key for key, origin in loaded.origins.items() if origin == "file"]
    assert len(given_there) == 6
    assert loaded.registry.storage_dir == "tools/generated"
    assert loaded.registry.require_approval is True


def test_the_environment_wins_over_the_file(tmp_path: Path) -> None:
    """Each source overrides the one before, and each row says where its value came from."""
    loaded = load(
        tmp_path,
        "calls: {python_threads: 4, default_timeout_ms: 500}\ntools: {modules: [a, b.c]}",
        TWINRAVEN__CALLS__PYTHON_THREADS="8",
        twinraven__Muninn__store_outputs="no",
    )
    assert (loaded.calls.python_threads, loaded.calls.default_timeout_ms) == (8, 500)
    assert loaded.tools.modules == ("a", "b.c")
    assert loaded.muninn.store_outputs is False
    origins = {row.key: row.origin for row in settings_as_rows(loaded)}
    assert origins["calls.python_threads"] == origins["muninn.store_outputs"] == "environment"
    assert origins["calls.default_timeout_ms"] == "file"
    assert origins["calls.python_threads"] != origins["mining.algorithm"] == "default"
    assert loaded.file == tmp_path / "twinraven.yaml"


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("STORAGE__URL", "postgresql://h/d", "postgresql://h/d"),
        ("STORAGE__ADMIN_URL", "", None),
        ("MUNINN__REDACT_HIGH_ENTROPY", "ON", True),
        ("MUNINN__SUMMARIES", "off", "off"),
        ("MUNINN__SESSION_IDLE_GAP_S", "0.5", 0.5),
        ("TOOLS__MODULES", "a, b.c ,", ("a", "b.c")),
        ("TOOLS__MODULES", "", ()),
        ("TOOLS__MODULES", ' ["a", "b.c"]', ("a", "b.c")),
        ("CONNECTORS__ALLOW_PRIVATE", "[::1], 10.0.0.1", ("[::1]", "10.0.0.1")),
        ("MINING__MAX_GAP_MS", "1500", 1500),
        ("MINING__MAX_GAP_MS", "null", None),
        ("MINING__MIN_SUPPORT", "1e-3", 0.001),
        ("RETENTION__DAYS", "90", 90),
    ],
)
def test_variables_are_read_by_type(tmp_path: Path, variable: str, text: str, expected: Any) -> None:
    """Text from the environment becomes the type of its setting."""
    loaded = load(tmp_path, **{f"TWINRAVEN__{variable}": text})
    assert values(loaded)[variable.lower().replace("__", ".")] == expected


def test_yaml_off_means_off(tmp_path: Path) -> None:
    """YAML reads a bare off as false; where off is a choice, that is what was meant."""
    loaded = load(tmp_path, "muninn: {summaries: off}\nregistry: {maintenance_schedule: off}")
    assert (loaded.muninn.summaries, loaded.registry.maintenance_schedule) == ("off", "off")


def test_an_empty_file_or_section_sets_nothing(tmp_path: Path) -> None:
    """A file with only comments, or a section without keys, is no mistake."""
    assert load(tmp_path, "# nothing yet\n").origins == {}
    assert load(tmp_path, "muninn:\n").origins == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("munin: {}", r"unknown section 'munin' in .*twinraven\.yaml; did you mean muninn"),
        ("muninn: {sumaries: off}", r"unknown setting 'muninn\.sumaries' in .*did you mean muninn\.summaries"),
        ("muninn: {store_outputs: 1}", r"muninn\.store_outputs in .*twinraven\.yaml is 1; expected: true or false"),
        ("muninn: {store_outputs: 'true'}", "expected: true or false"),
        ("muninn: {summaries: llm}", r"muninn\.summaries .* expected: one of deterministic, model, off"),
        ("muninn: {summaries: [off]}", r"muninn\.summaries .* expected: one of"),
        ("calls: {python_threads: 0}", "expected: whole number from 1"),
        ("calls: {python_threads: true}", "expected: whole number"),
        ("calls: {python_threads: 1.5}", "expected: whole number"),
        ("calls: {python_threads: null}", "expected: whole number"),
        ("mining: {min_support: 1.1}", "expected: number from 0 to 1"),
        ("mining: {min_support: .nan}", "expected: number from 0 to 1"),
        ("mining: {min_support: 1" + "0" * 400 + "}", "expected: number from 0 to 1"),
        ("mining: {algorithm: apriori}", "one of contiguous, prefixspan, gsp"),
        ("mining: {min_length: 7}", r"mining\.min_length \(7\) is above mining\.max_length \(5\)"),
        ("storage: {url: 5}", "expected: text"),
        ("storage: {url: ''}", "expected: text"),
        ("tools: {modules: mine}", "expected: list of texts"),
        ("tools: {modules: [1]}", "expected: list of texts"),
        ("retention: {days: 0}", "expected: whole number from 1 or null"),
        ("- a", "the file in .* must hold names and values"),
        ("muninn: 3", "section 'muninn' in .* must hold names and values"),
        ("1: 2", "unknown section 1"),
        ("muninn: {1: 2}", r"unknown setting 'muninn\.1'"),
        ("? [a]\n: b", "cannot be read|unknown section"),
        ("a: [", r"twinraven\.yaml cannot be read: line 1, column 5: [^\n]+$"),
        ("a: !!python/object/apply:os.system [id]", "cannot be read"),
        ("[" * 5_000, "cannot be read"),
    ],
)
def test_a_wrong_file_is_refused_by_name(tmp_path: Path, text: str, message: str) -> None:
    """Whatever is wrong in the file, the error names the key, the file and what would be right."""
    with pytest.raises(InvalidSetting, match=f"(?s){message}"):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("variable", "text", "message"),
    [
        (
            "TWINRAVEN__STORAGE__ULR",
            "x",
            "unknown setting 'TWINRAVEN__STORAGE__ULR'.*did you mean TWINRAVEN__STORAGE__URL",
        ),
        ("TWINRAVEN__STORAGE", "x", "unknown setting 'TWINRAVEN__STORAGE' in the environment"),
        ("TWINRAVEN__", "x", "unknown setting"),
        ("TWINRAVEN__CALLS__PYTHON_THREADS", "many", "PYTHON_THREADS in the environment is 'many'; expected: whole"),
        ("TWINRAVEN__CALLS__PYTHON_THREADS", "", "expected: whole number"),
        ("TWINRAVEN__MUNINN__STORE_OUTPUTS", "maybe", "expected: true or false"),
        ("TWINRAVEN__MINING__MIN_SUPPORT", "inf", "expected: number from 0 to 1"),
        ("TWINRAVEN__STORAGE__URL", " ", "expected: text"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(tmp_path: Path, variable: str, text: str, message: str) -> None:
    """Whatever is wrong in the environment, the error names the variable and what would be right."""
    with pytest.raises(InvalidSetting, match=message):
        load(tmp_path, **{variable: text})


def test_one_setting_has_one_variable(tmp_path: Path) -> None:
    """Two variables that differ only in case are a contradiction, not a race."""
    with pytest.raises(InvalidSetting, match="are one setting"):
        load(tmp_path, TWINRAVEN__RETENTION__DAYS="1", twinraven__retention__days="2")


def test_the_file_may_lie_in_the_home_but_not_twice(tmp_path: Path) -> None:
    """The file is found beside the home or inside it; two files are refused by name."""
    home = tmp_path / ".twinraven"
    home.mkdir()
    (home / "twinraven.yaml").write_text("retention: {days: 7}", "utf-8")
    assert load_settings(home, {}).retention.days == 7
    with pytest.raises(InvalidSetting, match="two settings files"):
        load(tmp_path, "retention: {days: 8}")


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    """A file that is not text is refused with its name."""
    (tmp_path / "twinraven.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidSetting, match=r"twinraven\.yaml cannot be read"):
        load(tmp_path)


def test_the_home_is_found_upwards(tmp_path: Path) -> None:
    """From any folder of a project the nearest home is found; a file of that name is not one."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / ".twinraven").mkdir()
    assert find_home(inner, {}) == tmp_path / ".twinraven"
    (tmp_path / "a" / ".twinraven").write_text("not a folder", "utf-8")
    assert find_home(inner, {}) == tmp_path / ".twinraven"
    (inner / ".twinraven").mkdir()
    assert find_home(inner, {}) == inner / ".twinraven"


def test_the_home_can_be_stated(tmp_path: Path) -> None:
    """TWINRAVEN_HOME is taken as it is, relative to the current folder, there or not."""
    assert find_home(tmp_path, {"TWINRAVEN_HOME": "/srv/ravens"}) == Path("/srv/ravens")
    assert find_home(tmp_path, {"TWINRAVEN_HOME": "state"}) == tmp_path / "state"
    assert find_home(tmp_path, {"TWINRAVEN_HOME": "~/ravens"}) == Path.home() / "ravens"


def test_without_a_home_there_is_none_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is found where there is nothing, and settings then speak of the home that would be made here."""
    monkeypatch.chdir(tmp_path)
    assert find_home(tmp_path, {}) is None
    assert load_settings(env={}).home == tmp_path / ".twinraven"
    monkeypatch.setenv("TWINRAVEN_HOME", str(tmp_path / "other"))
    assert load_settings().home == tmp_path / "other"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////srv/t.db", "sqlite:////srv/t.db"),
        ("postgresql://user@host:5432/db", "postgresql://user@host:5432/db"),
        ("postgresql://user:pw@host:5432/db", "postgresql://user:***@host:5432/db"),
        ("postgresql://user:p@w:x/y@host/db", "postgresql://user:***@host/db"),
        ("postgresql://:pw@host/db", "postgresql://:***@host/db"),
        (
            "postgresql://host/db?user=u&password=pw&sslmode=require",
            "postgresql://host/db?user=u&password=***&sslmode=require",
        ),
        ("postgresql://host/db?sslpassword=pw", "postgresql://host/db?sslpassword=***"),
        ("host=h password='p w' dbname=d", "host=h password=*** dbname=d"),
    ],
)
def test_passwords_are_masked(tmp_path: Path, url: str, shown: str) -> None:
    """Whoever sees the settings sees where the data is and not how to get in."""
    loaded = load(tmp_path, TWINRAVEN__STORAGE__URL=url, TWINRAVEN__STORAGE__ADMIN_URL=url)
    assert loaded.storage.url == url
    assert (values(loaded)["storage.url"], values(loaded)["storage.admin_url"]) == (shown, shown)
    assert "pw" not in repr(loaded) + repr(loaded.storage)


@settings(deadline=None)
@given(st.text(), st.text(st.characters(exclude_characters="?#@"), min_size=6), st.text())
def test_masking_leaves_no_password_behind(user: str, password: str, rest: str) -> None:
    """Masking is total, and a password between user and host is gone from every address."""
    mask_passwords(user + password + rest)
    assert mask_passwords(f"postgresql://u:{password}@h/d") == "postgresql://u:***@h/d"


def test_settings_cannot_be_changed(tmp_path: Path) -> None:
    """What was checked at the start stays as it was."""
    loaded = load(tmp_path)
    with pytest.raises(dataclasses.FrozenInstanceError):
        loaded.calls.python_threads = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_every_setting_is_described() -> None:
    """Each setting has a key, a type and a sentence, once."""
    described = describe_settings()
    assert len({item.key for item in described}) == len(described)
    assert all(item.type and item.description.endswith(".") for item in described)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(max_size=8) | st.sampled_from(["muninn", "calls"]), st.text(max_size=8), max_size=3))
def test_any_file_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, content: dict[str, str]) -> None:
    """No content of the file causes anything but the named error."""
    folder = tmp_path_factory.mktemp("settings")
    text = "\n".join(f"{key}: {value}" for key, value in content.items())
    (folder / "twinraven.yaml").write_text(text, "utf-8", errors="replace")
    try:
        assert load_settings(folder / ".twinraven", {}).home == folder / ".twinraven"
    except InvalidSetting as error:
        message = error.message
    else:
        message = "loaded"
    assert message


def test_yaml_is_imported_only_for_a_file(tmp_path: Path) -> None:
    """Without a settings file nobody pays for a YAML parser, nor for anything heavy."""
    script = (
        "import sys; from pathlib import Path; from twinraven.app import load_settings; "
        "load_settings(Path(sys.argv[1]) / '.twinraven', {}); "
        "print(sorted(sys.modules.keys() & {'yaml', 'pydantic', 'jsonschema_rs', 'orjson', 'difflib', 'numpy'}))"
    )
    source = str(Path(twinraven.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], env={"PYTHONPATH": source}, capture_output=True, check=True
    )
    assert done.stdout.strip() == b"[]"
