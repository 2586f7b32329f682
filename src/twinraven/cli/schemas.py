"""`twinraven schemas`: what TwinRaven's JSON looks like, for programs that read it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven schemas export schemas/")
    export = parser.command("export", "write the JSON Schema of every entity, a file each")
    export.add_argument("folder", metavar="DIR", help="where to; it is made if it is not there")
    export.takes_output("table", "json")
    export.runs(export_schemas, example="twinraven schemas export schemas/")


def export_schemas(options: Namespace) -> None:
    from twinraven.api import entity_schemas
    from twinraven.cli.exports import replaced
    from twinraven.cli.output import encode_json, show_json

    folder = Path(options.folder).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot create {folder}: {error.strerror}", field="folder") from error
    written: list[str] = []
    for name, schema in entity_schemas():
        path = folder / f"{name}.schema.json"
        with replaced(path) as out:
            out.write(encode_json(schema, indent=True) + b"\n")
        # A contract is for everybody, unlike what an export of the log holds.
        path.chmod(0o644)
        written.append(path.name)
    if options.output == "json":
        show_json({"folder": str(folder), "files": written})
    else:
        print(f"{len(written)} schemas written to {folder}")
