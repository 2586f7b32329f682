"""`twinraven console`: open the console of a running server in a browser, or say where it is."""

from __future__ import annotations

import sys
import webbrowser
from argparse import Namespace
from typing import Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from twinraven.cli.gateway import ListenAddress, address
from twinraven.cli.output import show_fields
from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import NotFound

_DEFAULT: Final = ListenAddress("127.0.0.1", 8765)
_PATIENCE_S: Final = 5.0


def register(parser: CommandParser) -> None:
    parser.add_argument(
        "--http",
        type=address,
        default=_DEFAULT,
        metavar="HOST:PORT",
        help=f"where the server listens (default: {_DEFAULT.host}:{_DEFAULT.port})",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.takes_output("table", "json")
    parser.runs(run, example="twinraven console --no-browser")


def run(options: Namespace) -> None:
    """Open the console of the server that listens there; without one, say how to start it."""
    host, port = options.http
    url = f"http://{host}:{port}/console/"
    if not _answers(url):
        raise NotFound(f"no console answers at {url}", fix=f"twinraven up --http {host}:{port}")
    show_fields(options.output, {"console": url})
    if not options.no_browser and not webbrowser.open(url):
        print("twinraven: no browser could be opened; open the address yourself", file=sys.stderr)


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=_PATIENCE_S) as answer:  # noqa: S310 - an address of ours
            return answer.status == 200
    except HTTPError:
        return False
    except (URLError, OSError):
        return False
