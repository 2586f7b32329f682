"""`twinraven restore`: a home as a backup holds it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from twinraven.cli.output import show_fields
from twinraven.cli.parser import CommandParser


def register(parser: CommandParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what `twinraven backup` wrote")
    parser.add_argument("--force", action="store_true", help="replace the database that is there")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven restore /mnt/backup/home.tar --home /srv/ravens/.twinraven")


def run(options: Namespace) -> None:
    from twinraven.app import load_settings
    from twinraven.cli.backup import embedded_database, folders_of, shown
    from twinraven.storage import restore_backup

    home = _wanted_home(options)
    settings = load_settings(home)
    database = embedded_database(settings, f"pg_restore --dbname=DATABASE {options.file}")
    file = Path(options.file).expanduser()
    manifest = restore_backup(file, database, folders_of(settings), force=options.force)
    database.close()
    show_fields(options.output, {"home": str(home), **shown(options, manifest.as_json())})


def _wanted_home(options: Namespace) -> Path:
    """Return the home that is named or found, else a new one here: a restore often begins with nothing."""
    from twinraven.cli.home import stated_home
    from twinraven.foundation.homes import HOME_NAME, find_home

    stated = stated_home(options)
    if stated is not None:
        inner = stated.path / HOME_NAME
        return inner if inner.is_dir() else stated.path
    return find_home(Path.cwd(), {}) or Path.cwd() / HOME_NAME
