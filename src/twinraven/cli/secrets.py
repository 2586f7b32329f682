"""`twinraven secrets`: credentials for tools, kept sealed.

A value is never an argument: arguments are seen by every user of the machine and kept in the shell's history. It is
typed without echo, piped in, or read from a file; and nothing here ever prints one.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser
from twinraven.cli.times import short_time
from twinraven.foundation.errors import InvalidInput

_TYPES = ("api_key", "oauth_token", "password", "certificate")
_REDACTED = "a value under 8 characters is never redacted"
_COLUMNS = (
    TableColumn("name", "NAME", shrinks=True),
    TableColumn("type", "TYPE"),
    TableColumn("version", "VERSION", right=True),
    TableColumn("updated_at", "SET", text=short_time, spare=1),
    TableColumn("last_used_at", "USED", text=short_time, spare=3),
    TableColumn("id", "ID", spare=2),
)


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven secrets set bank-key\ntwinraven secrets list")
    _register_set(parser.command("set", f"keep a new secret; {_REDACTED}"))
    listing = parser.command("list", "the names of what is kept")
    _add_user(listing)
    listing.takes_output("table", "json", "csv")
    listing.runs(list_secrets, example="twinraven secrets list --output json")
    rotate = parser.command("rotate", f"give a secret a new value, under the same id; {_REDACTED}")
    _add_name_and_value(rotate)
    rotate.runs(rotate_secret, example="twinraven secrets rotate bank-key --file new-key.txt")
    remove = parser.command("rm", "delete a secret that nothing uses")
    remove.add_argument("name", metavar="NAME", help="the secret's name")
    _add_user(remove)
    remove.takes_output("table", "json")
    remove.runs(remove_secret, example="twinraven secrets rm bank-key")
    rekey = parser.command("rekey", "seal everything under a new key-encryption key")
    rekey.takes_output("table", "json")
    rekey.runs(renew_key, example="twinraven secrets rekey")


def _register_set(parser: CommandParser) -> None:
    _add_name_and_value(parser)
    parser.add_argument("--type", choices=_TYPES, default="api_key", help="what kind it is (default: api_key)")
    parser.runs(set_secret, example="twinraven secrets set bank-key --type password --file password.txt")


def _add_name_and_value(parser: CommandParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the secret's name")
    parser.add_argument("--file", metavar="FILE", help="read the value from this file (default: stdin, or ask for it)")
    _add_user(parser)
    parser.takes_output("table", "json")


def _add_user(parser: CommandParser) -> None:
    parser.add_argument("--user", metavar="ID", default="local", help='whose it is (default: "local")')


def set_secret(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        value = _read_value(options)
        made = raven.vault.create(options.tenant, options.user, name=options.name, type=options.type, value=value)
        secret = asyncio.run(made)
    _warn_of_short(value)
    show_fields(options.output, secret.as_json())


def _warn_of_short(value: str) -> None:
    from twinraven.vault import SHORTEST_REDACTED

    if len(value) < SHORTEST_REDACTED:
        words = f"it has fewer than {SHORTEST_REDACTED} characters and will never be redacted from records and logs"
        print(f"twinraven: warning: {words}", file=sys.stderr)


def list_secrets(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        found = asyncio.run(raven.vault.secrets(options.tenant, options.user))
    show_rows(options.output, [secret.as_json() for secret in found], _COLUMNS, empty="no secrets")


def rotate_secret(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        vault = raven.vault

        async def work() -> dict[str, object]:
            secret = await vault.find(options.tenant, options.user, options.name)
            value = await asyncio.to_thread(_read_value, options)
            _warn_of_short(value)
            return (await vault.rotate(options.tenant, options.user, secret.secret_id, value)).as_json()

        secret = asyncio.run(work())
    show_fields(options.output, secret)


def remove_secret(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        vault = raven.vault

        async def work() -> str:
            secret = await vault.find(options.tenant, options.user, options.name)
            await vault.delete(options.tenant, options.user, secret.secret_id)
            return secret.secret_id

        removed = asyncio.run(work())
    show_fields(options.output, {"removed": options.name, "id": removed})


def renew_key(options: Namespace) -> None:
    import asyncio

    from twinraven.cli.home import opened

    with opened(options) as raven:
        done = asyncio.run(raven.vault.rotate_kek())
    fields = {"kek_id": done.kek_id, "tenants": done.tenants, "rewrapped": done.rewrapped}
    show_fields(options.output, {**fields, "unreadable": done.unreadable, "dropped": list(done.dropped)})


def _read_value(options: Namespace) -> str:
    """Read the value, without the line end that an editor or `echo` put behind it."""
    if options.file is None and sys.stdin.isatty():
        from getpass import getpass

        return getpass(f"value of {options.name}: ")
    try:
        raw = sys.stdin.buffer.read() if options.file is None else Path(options.file).read_bytes()
        text = raw.decode()
    except OSError as error:
        raise InvalidInput(f"{options.file} cannot be read: {error.strerror}", field="file") from None
    except UnicodeDecodeError:
        raise InvalidInput("the value is not text in UTF-8", field="value") from None
    return text.removesuffix("\n").removesuffix("\r")
