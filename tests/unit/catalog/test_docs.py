"""What the pages on the catalogue show can be used as it stands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.unit.catalog.town import Town
from twinraven.catalog import ServiceType, WireProtocol, read_file, read_operation
from twinraven.catalog.operations import OPERATIONS
from twinraven.catalog.service_model import CONNECTORS, PROTOCOLS
from twinraven.connectors import ProgramRules
from twinraven.foundation.templates import parse_handlebars
from twinraven.storage import Database

_DOCS = Path(__file__).resolve().parents[3] / "docs"
_PAGE = (_DOCS / "catalog.md").read_text("utf-8")


def blocks(language: str, page: str = _PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


async def test_the_file_can_be_applied(sqlite_database: Database, tmp_path: Path) -> None:
    """The catalogue on the page becomes a service and a tool."""
    town = Town(sqlite_database, tmp_path / "keys")
    await town.house.keep("shop-key")
    applied = await town.catalog.files.apply_file(town.ada, read_file(blocks("yaml")[0]))
    assert [(one.kind, one.name) for one in applied] == [("service", "shop"), ("tool", "get_order")]


async def test_the_mcp_server_of_the_guide_can_be_applied_and_is_allowed(
    sqlite_database: Database, tmp_path: Path
) -> None:
    """The guide's tool is one, and the setting beside it allows the program that the tool names."""
    catalogue, settings = blocks("yaml", (_DOCS / "how-to" / "call-an-api.md").read_text("utf-8"))
    town = Town(sqlite_database, tmp_path / "keys")
    await town.catalog.files.apply_file(town.ada, read_file(catalogue))
    params = (await town.catalog.tools.tool(town.ada, "remember")).connection_params
    rules = ProgramRules.of(yaml.safe_load(settings)["connectors"]["allow_programs"])
    rules.check([params["command"], *params["args"]], [])


@pytest.mark.parametrize("line", [line for block in blocks("json") for line in block.splitlines()])
def test_the_operations_can_be_read(line: str) -> None:
    """Each operation on the page is one."""
    assert read_operation(json.loads(line)).variables


def test_the_table_of_types_is_true() -> None:
    """Types, protocols, connectors and operations are those of the code."""
    rows = {
        ServiceType.NEO4J_GRAPH: "`bolt`, `bolt+s`",
        ServiceType.REST_API: "`http`, `https`",
        ServiceType.LLM_PROVIDER: "`http`, `https`",
        ServiceType.MCP_SERVER: "`stdio`, `http`, `https`, `sse`",
    }
    for kind, protocols in rows.items():
        assert tuple(WireProtocol(word) for word in re.findall(r"`(.*?)`", protocols)) == PROTOCOLS[kind]
        assert f"| `{kind}` | {protocols} | `{CONNECTORS[kind]}` | `{OPERATIONS[kind]}` |" in _PAGE


def test_the_template_forms_can_be_parsed() -> None:
    """Every form of the subset that the page lists is understood."""
    listing = re.search(r"lists as JSON:\n\n(.*?)\n\nThere are no helpers", _PAGE, re.DOTALL)
    assert listing is not None
    assert parse_handlebars(listing[1].replace("…", "x")).variables == ("name", "a", "b", "list", "outer", "x", "trims")
