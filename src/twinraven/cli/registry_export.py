"""`twinraven registry export`: a learned tool for other programs, as text or as files.

Files appear whole or not at all: they are written beside their place and renamed. What is already there is replaced
only with --force, and a folder only if it is a skill.

A folder cannot be replaced in one step everywhere, so the old one first moves aside, into a hidden folder of a fixed
name. Whoever finds that folder and can lock it knows that its owner died, and puts the old one back.
"""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from twinraven.cli.arguments import count
from twinraven.cli.output import clean, print_lines, show_json, write_bytes
from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from twinraven.app import TwinRaven
    from twinraven.registry import SynthesizedTool, ToolExport

_FORMS = ("python", "mcp", "openai", "skill")
_NEW, _OLD = "new", "old"


def register(parser: CommandParser) -> None:
    parser.add_argument("tool", metavar="TOOL", help="the tool's id")
    parser.add_argument("--as", dest="form", choices=_FORMS, required=True, help="what it becomes")
    parser.add_argument("--version", dest="number", type=count, metavar="N", help="that version, not the current one")
    parser.add_argument("--to", metavar="PATH", help="a file, or a folder to put it in; a skill goes here by itself")
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.takes_output("table", "json")
    parser.runs(export, example="twinraven registry export search_read_summarize --as python --to tools/")


def export(options: Namespace) -> None:
    import asyncio

    definition, made = asyncio.run(_made(options))
    is_file_text = options.to is None and not made.is_folder
    path = None if is_file_text else _write(made, options.to or ".", force=options.force)
    if options.output == "json":
        told = {"tool_id": definition.tool_id, "version": definition.version, "status": definition.status.value}
        place = {"files": made.files} if path is None else {"path": str(path), "files": list(made.files)}
        show_json({**told, "as": options.form, **place, "notes": list(made.notes)})
        return
    if path is None:
        write_bytes("".join(made.files.values()).encode())
    else:
        print_lines([clean(f"{definition.tool_id} v{definition.version} written to {path}")])
    _warn(made)


async def _made(options: Namespace) -> tuple[SynthesizedTool, ToolExport]:
    from twinraven.cli.home import opened

    with opened(options) as raven:
        tool = await raven.registry.tool(options.tenant, options.tool)
        found = tool.current if options.number is None else tool.version(options.number)
        if found is None:
            raise NotFound(f"{options.tool!r} has no version {options.number}", tool_id=options.tool)
        definition = found.definition
        # On the store's thread, because which secrets there are may have to be read.
        made = await raven.database.read(options.tenant, lambda _: _exported(raven, definition, options))
        return definition, made


def _exported(raven: TwinRaven, definition: SynthesizedTool, options: Namespace) -> ToolExport:
    from twinraven.registry import export_tool

    return export_tool(
        definition,
        options.form,
        lambda tool_id: raven.learned.find_any(options.tenant, tool_id),
        holds_secret=lambda text: raven.redactor.redact_known(options.tenant, text) is not text,
    )


def _warn(made: ToolExport) -> None:
    import sys

    for note in made.notes:
        print(clean(f"note: {note}"), file=sys.stderr)


def _write(made: ToolExport, to: str, *, force: bool) -> Path:
    """Return where it stands now."""
    given = Path(to)
    path = given / made.name if made.is_folder or given.is_dir() else given
    with _named(path):
        if made.is_folder:
            _write_folder(made, path, force=force)
        else:
            _refuse_other(path, force=force)
            _write_file(path, next(iter(made.files.values())))
    return path


def _refuse_other(path: Path, *, force: bool) -> None:
    if os.path.lexists(path) and not force:
        raise InvalidInput(f"{path} is there already; --force replaces it", field="to")


def _write_file(path: Path, text: str) -> None:
    from twinraven.cli.exports import replaced

    if path.is_dir():
        raise InvalidInput(f"{path} is a folder", field="to")
    with replaced(path) as out:
        out.write(text.encode())
        # Made for its owner alone; an export is for whoever may read the place it stands in.
        if hasattr(os, "fchmod"):
            os.fchmod(out.fileno(), 0o644)


def _write_folder(made: ToolExport, path: Path, *, force: bool) -> None:
    with _aside(path) as aside:
        _refuse_other(path, force=force)
        if os.path.lexists(path) and (path.is_symlink() or not _is_skill(path)):
            raise InvalidInput(f"{path} is no skill, and stays as it is", field="to")
        new = aside / _NEW
        for name, text in made.files.items():
            target = new / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
        if path.exists():
            path.rename(aside / _OLD)
        new.rename(path)


@contextmanager
def _aside(path: Path) -> Generator[Path]:
    """Provide a hidden folder beside a place, this process's own.

    It goes away, and what it took from the place is back.
    """
    aside = path.with_name(f".{path.name}.exporting")
    with _locked(aside):
        try:
            _settle(aside, path)
            yield aside
        finally:
            _settle(aside, path)
            aside.rmdir()


@contextmanager
def _locked(folder: Path) -> Generator[None]:
    import fcntl

    while True:
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # Its last owner may have removed it meanwhile.
            if folder.exists() and os.path.samestat(os.fstat(descriptor), folder.stat()):
                yield
                return
        finally:
            os.close(descriptor)


def _settle(aside: Path, path: Path) -> None:
    """Put back what was moved aside, if nothing has taken its place, and remove the rest."""
    old = aside / _OLD
    if _is_skill(old) and not os.path.lexists(path):
        old.rename(path)
    for left in (aside / _NEW, old):
        if left.exists():
            shutil.rmtree(left)


def _is_skill(folder: Path) -> bool:
    return (folder / "SKILL.md").is_file()


@contextmanager
def _named(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}", field="to") from error
