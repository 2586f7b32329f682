"""`twinraven backup`: one file from which an embedded home can be put back."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from twinraven import __version__
from twinraven.cli.output import show_fields
from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.app import Settings
    from twinraven.storage import BackupFolder, SqliteDatabase

KEYS, TOOLS = "keys", "tools"


def register(parser: CommandParser) -> None:
    parser.add_argument("file", metavar="FILE", help="where to; a file of that name is replaced")
    parser.add_argument(
        "--with-keys", action="store_true", help="add the keys: whoever has the file can then read every secret"
    )
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven backup /mnt/backup/home.tar")


def run(options: Namespace) -> None:
    from twinraven.app import load_settings
    from twinraven.cli.exports import replaced
    from twinraven.cli.home import locate_home
    from twinraven.storage import write_backup

    file = Path(options.file).expanduser().absolute()
    settings = load_settings(locate_home(options).path)
    database = embedded_database(settings, f"pg_dump --format=custom --file={options.file} DATABASE")
    folders = [folder for folder in folders_of(settings) if options.with_keys or folder.name != KEYS]
    with replaced(file) as out:
        manifest = write_backup(database, out, folders, scratch=file.parent, version=__version__)
    database.close()
    show_fields(options.output, {"file": str(file), "bytes": file.stat().st_size, **shown(options, manifest.as_json())})


def embedded_database(settings: Settings, instead: str) -> SqliteDatabase:
    """Return the home's own database; a shared one has tools of its own."""
    from twinraven.storage import SqliteDatabase, open_database

    database = open_database(settings.storage.url)
    if not isinstance(database, SqliteDatabase):
        database.close()
        raise InvalidInput("the data is in Postgres, which has tools of its own for this", fix=instead)
    return database


def folders_of(settings: Settings) -> list[BackupFolder]:
    """Return the folders of a home beside its database, in the order of restoring."""
    from twinraven.audit import merge_key_files
    from twinraven.storage import BackupFolder

    return [
        BackupFolder(KEYS, settings.home / "keys", merge_key_files),
        BackupFolder(TOOLS, settings.home / settings.registry.storage_dir),
    ]


def shown(options: Namespace, manifest: dict[str, object]) -> dict[str, object]:
    """Return the printed form of an archive's manifest."""
    if options.output == "json":
        return manifest
    folders = manifest["folders"]
    assert isinstance(folders, list)
    return {
        "made at": manifest["made_at"],
        "holds": ", ".join(["database", *map(str, folders)]),  # pyright: ignore[reportUnknownArgumentType]
    }
