"""`twinraven gateway`: the MCP door, on stdio for one client or on HTTP for many."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from twinraven.cli import gateway_status
from twinraven.cli.interrupts import leaving_threads_behind
from twinraven.cli.output import clean, encode_json, show_json
from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.gateway import ClientFile, Gateway

_MISSING = "pip install 'twinraven[gateway]'"


class ListenAddress(NamedTuple):
    host: str
    port: int


def register(parser: CommandParser) -> None:
    parser.add_argument(
        "--http", type=address, metavar="HOST:PORT", help="listen there, at /mcp (default: speak on stdin and stdout)"
    )
    takes_require_keys(parser)
    parser.add_argument("--lifeline", type=int, help=argparse.SUPPRESS)
    parser.runs(run, example="twinraven gateway --http 127.0.0.1:8765")
    init = parser.command("init", "put the servers of another client's file behind the gateway")
    init.add_argument(
        "--from",
        dest="source",
        metavar="FILE",
        help="the client's file with its servers (default: name those found)",
    )
    init.add_argument("--force", action="store_true", help="replace the servers this home has already")
    init.takes_output("table", "json")
    init.runs(initialize, example="twinraven gateway init --from ~/.cursor/mcp.json")
    gateway_status.register(parser.command("status", "the servers behind the gateway, and what was last heard of each"))


def takes_require_keys(parser: CommandParser) -> None:
    """Add the `--require-keys` option of every command that listens."""
    parser.add_argument(
        "--require-keys",
        action="store_true",
        help="ask callers on this machine for a key, too; needed behind a reverse proxy (setting serving.require_keys)",
    )


def address(text: str) -> ListenAddress:
    """HOST:PORT, or a port of this machine."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 65_536:
        raise argparse.ArgumentTypeError(f"must be HOST:PORT, such as 127.0.0.1:8765, not {text!r}")
    return ListenAddress(host or "127.0.0.1", int(port))


def run(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    # Outside the event loop, where Ctrl-C ends it at once.
    try:
        from twinraven.gateway import Gateway
    except ImportError as error:
        raise InvalidInput(f"the gateway needs the MCP SDK: {error}", fix=_MISSING) from error
    with leaving_threads_behind(), opened(options) as raven:
        late_s = time.monotonic() - options.began
        asyncio.run(_serve(Gateway(raven, tenant_id=options.tenant, late_s=late_s), options))


async def _serve(gateway: Gateway, options: Namespace) -> None:
    http: ListenAddress | None = options.http
    if http is None:
        await gateway.serve_stdio()
        return

    def tell() -> None:
        print(f"twinraven: listening on http://{http.host}:{http.port}/mcp", file=sys.stderr)

    await gateway.serve_http(*http, require_keys=options.require_keys, lifeline=options.lifeline, on_listening=tell)


def initialize(options: Namespace) -> None:
    from twinraven.cli.home import locate_home
    from twinraven.connectors import SERVERS_FILE
    from twinraven.gateway import ClientFile, read_client_file

    home = locate_home(options).path
    target = home / SERVERS_FILE
    if options.source is None:
        found = ClientFile(target, "mcpServers", ())
    else:
        found = read_client_file(Path(options.source).expanduser())
    written = options.source is not None
    if written:
        _write(target, encode_json(found.document(), indent=True) + b"\n", force=options.force)
    if options.output == "json":
        show_json(
            {
                "servers": [server.name for server in found.servers],
                "file": str(target) if written else None,
                "client": str(found.path) if written else None,
                "change": found.replacement(home, command=_own_path()),
                "credentials": found.credentials(),
                "left_out": list(found.left_out),
            }
        )
        return
    _tell(found, home, target if written else None)


def _tell_places(home: Path) -> None:
    """Name the files of MCP clients on this machine, with the command that takes each over."""
    import os

    from twinraven.gateway import find_client_files

    found = find_client_files(Path.home(), home.parent, os.environ)
    if not found:
        return
    print("MCP clients keep their servers in these files; to put them behind the gateway, run one of:\n")
    for place in found:
        print(f"  twinraven gateway init --from {shlex.quote(str(place.path))}   # {place.client}")
    print()


def _write(target: Path, body: bytes, *, force: bool) -> None:
    """Write the file atomically; a new one is readable by its owner alone.

    Other clients keep credentials in theirs. One that is there keeps its permissions.
    """
    import os

    from twinraven.cli.exports import replaced

    target = target.resolve()
    try:
        with replaced(target, new=not force) as out:
            out.write(body)
            # Windows has permissions of another kind, and this only since Python 3.13.
            if force and target.exists() and hasattr(os, "fchmod"):
                os.fchmod(out.fileno(), target.stat().st_mode & 0o7777)
    except FileExistsError as error:
        raise InvalidInput(f"{target} is there already; --force replaces it", field="from") from error
    except OSError as error:
        raise InvalidInput(f"cannot write {target}: {error.strerror}", field="from") from error


def _own_path() -> str:
    """Return the path of this command: desktop clients do not have a virtual environment's on their PATH."""
    from shutil import which

    return str(Path(which(sys.argv[0]) or sys.argv[0]).absolute())


def _tell(found: ClientFile, home: Path, written: Path | None) -> None:
    if written is not None:
        count = "1 server is" if len(found.servers) == 1 else f"{len(found.servers)} servers are"
        print(f"{count} behind the gateway now, in {written}:")
        print(f"  {', '.join(server.name for server in found.servers)}")
        print(f"\nIn {found.path}, put this in the place of its servers:\n")
    else:
        _tell_places(home)
        print("In your MCP client's file, put this in the place of its servers:\n")
    print(f"  {found.replacement(home, command=_own_path())}")
    if found.left_out:
        print("\nNot taken over:")
        for line in found.left_out:
            print(f"  {clean(line)}")
    unfillable = found.unfillable()
    if unfillable:
        print(
            "\nOnly the client itself can fill these in; write ${secret:NAME}, ${env:NAME} or the value in their place:"
        )
        for line in unfillable:
            print(f"  {clean(line)}")
    credentials = found.credentials()
    if credentials:
        print(f"\nThese look like credentials in clear: {', '.join(credentials)}")
        print("Keep them with `twinraven secrets set NAME` and write ${secret:NAME} in their place.")
