"""Data-defined tools that learned tools call, on both stores."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.homes import opened_home
from tests.postgres import PostgresLogin
from tests.registry_kit import add_chain, make_definition, make_verdict
from tests.unit.catalog.town import inputs, service_body, tool_body
from twinraven.app import TwinRaven
from twinraven.catalog import ServiceSpec, ToolSpec
from twinraven.flow import ErrorStrategy, StepDefinition
from twinraven.foundation.errors import Conflict
from twinraven.registry import RetirementReason, SynthesizedTool
from twinraven.tenancy import LOCAL


@pytest.fixture(params=["sqlite", "postgres"])
async def raven(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[TwinRaven]:
    login: PostgresLogin | None = None
    if request.param == "postgres":
        login = request.getfixturevalue("postgres_login")
    with opened_home(tmp_path, postgres=login, registry={"require_approval": True}) as raven:
        await raven.defined.services.create(LOCAL, ServiceSpec.from_json(service_body()))
        for key in ("find", "fetch", "spare"):
            operation = {"type": "rest_call", "method": "GET", "path": f"/{key}/{{{{q}}}}"}
            body = tool_body(key=key, operation=operation, inputSchema=inputs("q"))
            await raven.defined.tools.create(LOCAL, ToolSpec.from_json(body))
        yield raven


async def learned(raven: TwinRaven) -> SynthesizedTool:
    """A definition that calls `find` and `fetch`, learned from a chain of them."""
    chain = await add_chain(raven.database, "find", "fetch")
    return make_definition("find_fetch", steps=("find", "fetch"), chain_id=chain)


async def delete(raven: TwinRaven, key: str) -> None:
    await raven.defined.tools.delete(LOCAL, key)


@pytest.mark.req("AD-05")
async def test_a_step_of_a_learned_tool_keeps_its_tool(raven: TwinRaven) -> None:
    """From registration until retirement the tool cannot be deleted, and the error names the learned tool."""
    await raven.registry.register("default", await learned(raven), make_verdict())
    with pytest.raises(Conflict, match=r"'find' is called by learned tool 'find_fetch' \(version 1\)"):
        await delete(raven, "find")
    await raven.registry.promote("default", "find_fetch", by="ada")
    with pytest.raises(Conflict, match="learned tool 'find_fetch'") as refused:
        await delete(raven, "fetch")
    assert refused.value.details["used_by"] == ["learned tool 'find_fetch' (version 1)"]
    await delete(raven, "spare")
    await raven.registry.retire("default", "find_fetch", RetirementReason.MANUAL, by="ada")
    await delete(raven, "find")
    assert [tool.key for tool in await raven.defined.tools.tools(LOCAL)] == ["fetch"]


@pytest.mark.req("AD-05")
async def test_a_fallback_counts_as_a_step(raven: TwinRaven) -> None:
    """A tool that is only called when another fails is needed all the same."""
    spare = StepDefinition(0, "spare", {"q": "$.parameters.q"})
    strategy = ErrorStrategy(fallback_steps={0: (spare,)})
    definition = replace(await learned(raven), error_strategy=strategy)
    await raven.registry.register("default", definition, make_verdict())
    with pytest.raises(Conflict, match="learned tool 'find_fetch'"):
        await delete(raven, "spare")
