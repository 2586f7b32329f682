"""Shares code between the commands on services, templates and data-defined tools: owner options and file formats."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from twinraven.cli.parser import CommandParser
from twinraven.foundation.errors import InvalidInput

if TYPE_CHECKING:
    from twinraven.catalog import DefinedCatalog
    from twinraven.tenancy import Principal

T = TypeVar("T")
Ask = Callable[["DefinedCatalog", "Principal"], Coroutine[Any, Any, T]]


def add_user(parser: CommandParser) -> None:
    parser.add_argument("--user", metavar="ID", default="local", help='for whom (default: "local")')


def in_catalogue(options: Namespace, ask: Ask[T]) -> T:
    """Do something with the catalogue of the home, for the user that the options name.

    Whoever sits at the machine may say all that an administrator may.
    """
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.tenancy import Principal

    with opened(options) as raven:
        return asyncio.run(ask(raven.defined, Principal(options.tenant, options.user, "admin")))


def read_text(place: str, *, field: str = "file") -> str:
    """Read the text of a file, or of stdin where the place is `-`."""
    try:
        return sys.stdin.read() if place == "-" else Path(place).read_text("utf-8")
    except OSError as error:
        raise InvalidInput(f"cannot read {place}: {error.strerror}", field=field) from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"cannot read {place}: it is not UTF-8 text ({error.reason})", field=field) from None


def read_object(text: str, name: str) -> dict[str, Any]:
    """Read a JSON object given as an argument, or as `@file`."""
    from twinraven.foundation.canonical import parse_json

    value = parse_json(read_text(text[1:]) if text.startswith("@") else text, field=name)
    if not isinstance(value, dict):
        raise InvalidInput(f"{name} must be a JSON object", field=name)
    return cast("dict[str, Any]", value)
