"""`twinraven init`: a home in a folder, with everything that a first command needs.

Nothing that is there is changed, so it can be run again at any time.
"""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from twinraven.cli.output import show_json
from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.foundation.settings import SettingDescription

_HEADER = """\
# Settings of TwinRaven. Each line shows a default: take away its # and that of the section above to change it.
# The environment wins over this file: TWINRAVEN__SECTION__KEY. `twinraven config show` prints what is in force.
"""


def register(parser: CommandParser) -> None:
    parser.add_argument("path", metavar="PATH", nargs="?", help="the folder that gets the home (default: this one)")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven init my-project")


def run(options: Namespace) -> None:
    from twinraven.app import TwinRaven, load_settings
    from twinraven.storage import pending_migrations

    home = _wanted(options)
    created: list[Path] = []
    _make_folder(home, created)
    _write_new(home / ".gitignore", "*\n", created)
    _write_settings(home, created)
    with TwinRaven(load_settings(home)) as raven:
        embedded = raven.database.dialect == "sqlite"
        migrated = raven.database.migrate() if embedded and pending_migrations(raven.database) else []
    if options.output == "json":
        show_json({"home": str(home), "created": [str(path) for path in created], "migrations": migrated})
        return
    for path in created:
        print(f"created {path}")
    print(f"{'the home is' if created else 'there was a home already:'} {home}")
    if not embedded:
        print("its data is in Postgres: run `twinraven db upgrade` once, as the owner of the schema")


def _wanted(options: Namespace) -> Path:
    from twinraven.cli.home import stated_home
    from twinraven.foundation.homes import HOME_NAME, is_home

    path: str | None = options.path
    if path is not None and options.home is not None:
        raise InvalidInput("give PATH or --home, not both", field="path")
    stated = stated_home(options)
    if path is None and stated is not None:
        folder = stated.path
        # A folder with other things in it is a project; making it the home itself would hide it from git.
        is_project = (folder / HOME_NAME).is_dir() or (
            folder.is_dir() and not is_home(folder) and any(folder.iterdir())
        )
        return folder / HOME_NAME if is_project else folder
    return Path(path or ".").expanduser().absolute() / HOME_NAME


def _make_folder(home: Path, created: list[Path]) -> None:
    if home.is_dir():
        _close_to_others(home)
        return
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        home.mkdir(mode=0o700)
    except OSError as error:
        raise InvalidInput(f"cannot create {home}: {error.strerror}", field="path") from error
    created.append(home)


def _close_to_others(home: Path) -> None:
    """Make an empty folder that becomes a home private, as one that is created; a share of a group stays."""
    mode = home.stat().st_mode
    if any(home.iterdir()):
        return
    # Somebody else's folder, such as a volume that was mounted, is as its owner wants it.
    with suppress(PermissionError):
        home.chmod(mode & ~(0o007 if mode & 0o020 else 0o077))


def _write_settings(home: Path, created: list[Path]) -> None:
    from twinraven.app import describe_settings
    from twinraven.foundation.homes import HOME_NAME
    from twinraven.foundation.settings import FILE_NAME

    beside, inside = home.parent / FILE_NAME, home / FILE_NAME
    if not beside.exists():
        _write_new(beside if home.name == HOME_NAME else inside, settings_template(describe_settings()), created)


def _write_new(path: Path, text: str, created: list[Path]) -> None:
    try:
        with path.open("x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        return
    except OSError as error:
        raise InvalidInput(f"cannot create {path}: {error.strerror}", field="path") from error
    created.append(path)


def settings_template(described: list[SettingDescription]) -> str:
    """Return a settings file in which every default stands, switched off."""
    lines: list[str] = [_HEADER]
    section = ""
    for setting in described:
        name, _, key = setting.key.partition(".")
        if name != section:
            section = name
            lines.append(f"\n# {section}:\n")
        lines.append(f"#   # {setting.description} ({setting.type})\n#   {key}: {_yaml_value(setting)}\n")
    return "".join(lines)


def _yaml_value(setting: SettingDescription) -> str:
    if setting.default == "none":
        return "[]" if setting.type.startswith("list") else "null"
    return f'"{setting.default}"' if setting.type.startswith("text") else setting.default
