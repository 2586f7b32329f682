"""`twinraven config`: the settings that are in force, and whether they make sense."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from twinraven.cli.output import TableColumn, show_fields, show_rows
from twinraven.cli.parser import CommandParser

if TYPE_CHECKING:
    from twinraven.app import Settings
    from twinraven.connectors import ServerFault

_COLUMNS = (TableColumn("key", "SETTING"), TableColumn("value", "VALUE", shrinks=True), TableColumn("origin", "FROM"))


def register(parser: CommandParser) -> None:
    parser.show_example("twinraven config show")
    show = parser.command("show", "every setting, its value and where it was set")
    show.takes_output("table", "json", "csv")
    show.runs(show_settings, example="twinraven config show --output csv")
    check = parser.command("check", "refuse settings that are misspelt, out of bounds, or cannot work")
    check.takes_output("table", "json")
    check.runs(check_settings, example="twinraven config check")


def show_settings(options: Namespace) -> None:
    from twinraven.app import settings_as_rows

    show_rows(options.output, [row._asdict() for row in settings_as_rows(_load(options))], _COLUMNS)


def check_settings(options: Namespace) -> None:
    from twinraven.foundation.errors import InvalidSetting

    settings = _load(options)
    check_sections(settings)
    faults = find_faults(settings, options)
    if faults:
        words = "; ".join(fault.message for fault in faults)
        raise InvalidSetting(words, field="mcpServers", fix=next((fault.fix for fault in faults if fault.fix), None))
    _check_modules(settings)
    fields = {
        "valid": True,
        "home": str(settings.home),
        "file": None if settings.file is None else str(settings.file),
        "changed": sorted(settings.origins),
    }
    show_fields(options.output, fields if options.output == "json" else {**fields, "changed": len(settings.origins)})


def check_sections(settings: Settings) -> None:
    """Refuse what only its own package can read: policy rules, MCP servers and origins of pages."""
    from twinraven.calls import read_rules
    from twinraven.connectors import read_servers
    from twinraven.serving import check_origins

    read_rules(settings.policy.rules)
    read_servers({"mcpServers": settings.servers}, where="mcpServers")
    check_origins(settings.serving.allow_origins)


def find_faults(settings: Settings, options: Namespace) -> list[ServerFault]:
    """Find faults that keep MCP servers of these settings from starting; secrets are looked up in the home, if any."""
    import asyncio

    from twinraven.cli.home import opened
    from twinraven.connectors import SERVERS_FILE, VaultSecrets, load_servers, server_faults

    servers = load_servers(settings.servers, settings.home / SERVERS_FILE)
    if not servers or not settings.home.is_dir():
        return asyncio.run(server_faults(servers, None, options.tenant))
    with opened(options) as raven:
        return asyncio.run(server_faults(servers, VaultSecrets(raven.vault), options.tenant))


def _check_modules(settings: Settings) -> None:
    """Refuse modules of tools that cannot be imported."""
    from twinraven.catalog import FunctionTools
    from twinraven.cli.home import see_tools_of

    see_tools_of(settings.home)
    tools = FunctionTools()
    for module in settings.tools.modules:
        tools.add_module(module)


def _load(options: Namespace) -> Settings:
    """Settings exist before a home does, so that they can be looked at before one is made."""
    from twinraven.app import load_settings
    from twinraven.cli.home import locate_home, stated_home
    from twinraven.foundation.errors import NotFound

    try:
        return load_settings(locate_home(options).path)
    except NotFound as error:
        print(f"twinraven: note: {error.message}", file=sys.stderr)
        stated = stated_home(options)
        return load_settings(None if stated is None else stated.path)
