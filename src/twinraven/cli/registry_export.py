"""`twinraven registry export`: a learned tool for other programs, as text or as files.

Files appear whole or not at all: they are written beside their place and renamed. What is already there is replaced
only with --force, and a folder only if it is a skill.
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
    from twinraven.flow import SynthesizedTool
    from twinraven.registry import ToolExport

_FORMS = ("python", "mcp", "openai", "skill")


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
    from twinraven.registry import export_tool

    with opened(options) as raven:
        tool = await raven.registry.tool(options.tenant, options.tool)
        found = tool.current if options.number is None else tool.version(options.number)
        if found is None:
            raise NotFound(f"{options.tool!r} has no version {options.number}", tool_id=options.tool)
        definition = found.definition
        return definition, export_tool(
            definition, options.form, lambda tool_id: raven.learned.find_any(options.tenant, tool_id)
        )


def _warn(made: ToolExport) -> None:
    import sys

    for note in made.notes:
        print(clean(f"note: {note}"), file=sys.stderr)


def _write(made: ToolExport, to: str, *, force: bool) -> Path:
    """Where it stands now."""
    given = Path(to)
    path = given / made.name if made.is_folder or given.is_dir() else given
    with _named(path):
        if os.path.lexists(path) and not force:
            raise InvalidInput(f"{path} is there already; --force replaces it", field="to")
        if made.is_folder:
            _write_folder(made, path)
        else:
            _write_file(path, next(iter(made.files.values())))
    return path


def _write_file(path: Path, text: str) -> None:
    from twinraven.cli.exports import replaced

    if path.is_dir():
        raise InvalidInput(f"{path} is a folder", field="to")
    with replaced(path) as out:
        out.write(text.encode())
        # Made for its owner alone; an export is for whoever may read the place it stands in.
        os.fchmod(out.fileno(), 0o644)


def _write_folder(made: ToolExport, path: Path) -> None:
    from tempfile import mkdtemp

    is_there = os.path.lexists(path)
    if is_there and (path.is_symlink() or not (path / "SKILL.md").is_file()):
        raise InvalidInput(f"{path} is no skill, and stays as it is", field="to")
    beside = Path(mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        new, old = beside / "new", beside / "old"
        for name, text in made.files.items():
            target = new / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text.encode())
        if is_there:
            path.rename(old)
        try:
            new.rename(path)
        except OSError:
            if is_there:
                old.rename(path)
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def _named(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}", field="to") from error
