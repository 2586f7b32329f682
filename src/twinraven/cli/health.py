"""Runs the checks of `twinraven doctor`, one function per component."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from twinraven.app import (
    ExaminationFinding,
    examine_database,
    examine_folder,
    examine_ground,
    examine_upstream_tools,
)
from twinraven.cli.config import check_sections, find_faults
from twinraven.cli.home import locate_home, see_tools_of
from twinraven.foundation.errors import TwinRavenError

if TYPE_CHECKING:
    from twinraven.app import Settings


def examine(options: Namespace, *, fast: bool) -> Iterator[ExaminationFinding]:
    """Yield everything, from the ground up; what stands on something broken is not looked at."""
    from twinraven.app import load_settings

    yield from examine_ground()
    try:
        place = locate_home(options)
        yield ExaminationFinding("home", "ok", f"{place.path} ({place.stated_by})")
        yield from examine_folder(place.path)
        settings = load_settings(place.path)
        check_sections(settings)
    except TwinRavenError as error:
        yield ExaminationFinding(
            "home" if error.code == "NOT_FOUND" else "settings", "broken", error.message, _fix(error)
        )
        return
    yield ExaminationFinding("settings", "ok", str(settings.file or "no file, all defaults"))
    yield from _database(settings, tenant_id=options.tenant, fast=fast)
    yield from _servers(settings, options)
    yield from _tools(settings)


def _database(settings: Settings, *, tenant_id: str, fast: bool) -> Iterator[ExaminationFinding]:
    import asyncio

    from twinraven.app import TwinRaven

    with TwinRaven(settings) as raven:
        found = list(examine_database(raven, fast=fast))
        yield from found
        if any(each.status == "broken" for each in found):
            return
        try:
            yield from asyncio.run(examine_upstream_tools(raven, tenant_id))
        except TwinRavenError as error:
            yield ExaminationFinding("database", "broken", error.message, _fix(error))


def _servers(settings: Settings, options: Namespace) -> Iterator[ExaminationFinding]:
    """Return what would keep MCP servers from starting."""
    try:
        faults = find_faults(settings, options)
    except TwinRavenError:
        return  # the database, which is reported above
    for fault in faults:
        yield ExaminationFinding(f"server {fault.server}", "broken", fault.message, fault.fix)


def _tools(settings: Settings) -> Iterator[ExaminationFinding]:
    from twinraven.catalog import FunctionTools

    see_tools_of(settings.home)
    tools = FunctionTools()
    for module in settings.tools.modules:
        try:
            count = tools.add_module(module)
        except TwinRavenError as error:
            yield ExaminationFinding(f"tools {module}", "broken", error.message, "correct tools.modules or the module")
        except Exception as error:  # noqa: BLE001 - foreign code: whatever a module raises on import is what is wrong with it
            yield ExaminationFinding(
                f"tools {module}", "broken", f"{type(error).__name__}: {error}", "correct the module"
            )
        else:
            yield ExaminationFinding(f"tools {module}", "ok" if count else "warning", f"{count} tools")


def _fix(error: TwinRavenError) -> str | None:
    return error.details.get("fix")
