"""Data-defined tools on MCP servers, called through the one path: programs and addresses, old servers and new."""

from __future__ import annotations

import asyncio
import gc
import shlex
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gateways import NEW, OLD, free_port, http_server
from tests.homes import all_text, opened_home
from twinraven.app import TwinRaven
from twinraven.calls import CallContext, SkillInvocationRequest, SkillInvocationResponse
from twinraven.catalog import HealthStatus, ServiceSpec, ToolSpec
from twinraven.connectors import AddressGuard, AddressRules, ProgramRules, ServerConfig, ServiceServers
from twinraven.connectors.mcp.service_servers import NamedServer
from twinraven.foundation.errors import InvalidDefinition, InvalidSetting
from twinraven.tenancy import LOCAL

_ANYTHING = {"type": "object"}


def line(server: dict[str, Any], *variables: str) -> str:
    """A server's command as the operator would allow it."""
    return shlex.join([*(f"{name}=" for name in variables), server["command"], *server["args"]])


@contextmanager
def opened(folder: Path, *programs: str, private: bool = True) -> Generator[TwinRaven]:
    networks = ["127.0.0.0/8"] if private else []
    with opened_home(folder, connectors={"allow_programs": list(programs), "allow_private": networks}) as raven:
        yield raven


async def define(
    raven: TwinRaven, tool: str, params: dict[str, Any], *, protocol: str = "stdio", **fields: Any
) -> None:
    """A service and one tool of it, both named after the server's tool."""
    service = {"name": tool, "type": "mcp_server", "protocol": protocol, "connection_schema": _ANYTHING}
    await raven.defined.services.create(LOCAL, ServiceSpec.from_json(service))
    body = {
        "key": tool,
        "service": tool,
        "connection_params": params,
        "operation": {"type": "mcp_call", "tool": tool},
        "input_schema": _ANYTHING,
        "effect": "read",
        **fields,
    }
    await raven.defined.tools.create(LOCAL, ToolSpec.from_json(body))


async def call(raven: TwinRaven, tool: str, **payload: Any) -> SkillInvocationResponse:
    request = SkillInvocationRequest(tool_name=tool, payload=payload)
    return await raven.calls.invoke(request, CallContext("session"))


def error_of(response: SkillInvocationResponse) -> dict[str, Any]:
    assert response.error is not None
    return dict(response.error)


@pytest.mark.req("AD-02")
@pytest.mark.parametrize("server", [OLD, NEW], ids=["old", "new"])
async def test_a_program_is_started_and_called(tmp_path: Path, server: dict[str, Any]) -> None:
    """The operation names the server's tool and its arguments; an old and a new revision both answer."""
    operation = {"type": "mcp_call", "tool": "echo", "arguments": {"text": "{{words}}!"}}
    inputs = {"type": "object", "required": ["words"], "properties": {"words": {"type": "string"}}}
    with opened(tmp_path, line(server)) as raven:
        await define(raven, "echo", dict(server), operation=operation, input_schema=inputs)
        response = await call(raven, "echo", words="hello")
        assert response.status == "success"
        assert "hello!" in str(response.output)
        assert error_of(await call(raven, "echo", text="hello"))["code"] == "VALIDATION_FAILED"
        await raven.aclose()


@pytest.mark.req("AD-02")
@pytest.mark.parametrize(("protocol", "path"), [("http", "mcp"), ("sse", "sse")])
async def test_an_address_is_reached_and_called(tmp_path: Path, protocol: str, path: str) -> None:
    """Streamable HTTP and the older SSE serve the same tools."""
    with http_server(protocol) as port, opened(tmp_path) as raven:
        endpoint = f"http://127.0.0.1:{port}/{path}"
        await define(raven, "get_order", {"endpoint": endpoint}, protocol=protocol)
        response = await call(raven, "get_order", order_id="7")
        assert response.output == {"order_id": "7", "total": 12.5, "note": None}
        await raven.aclose()


@pytest.mark.req("AD-02", "AD-03")
async def test_health_is_looked_at_and_keeps_calls_away(tmp_path: Path) -> None:
    """A server that is gone is down with a reason, calls end at once, and a check finds it again when it is back."""
    port = free_port()
    with opened(tmp_path) as raven:
        await define(raven, "get_order", {"endpoint": f"http://127.0.0.1:{port}/mcp"}, protocol="http")
        found = await raven.defined.health.check_health(LOCAL, "get_order")
        assert (found.status, "cannot be reached" in str(found.error_message)) == (HealthStatus.DOWN, True)
        assert error_of(await call(raven, "get_order", order_id="7"))["code"] == "TOOL_UNAVAILABLE"
        with http_server("http", at=port):
            assert (await raven.defined.health.check_health(LOCAL, "get_order")).status is HealthStatus.HEALTHY
            assert (await call(raven, "get_order", order_id="7")).status == "success"
        await raven.aclose()


@pytest.mark.req("AD-03")
async def test_a_write_to_a_program_that_hangs_while_it_starts_was_not_sent(tmp_path: Path) -> None:
    """The call ends in its time, as unavailable and not as unknown, so the same key may be used again."""
    silent = {**OLD, "args": [*OLD["args"], "--dumb", "initialize"]}
    with opened(tmp_path, line(silent)) as raven:
        await define(raven, "echo", silent, effect="write", timeout_ms=800)
        for _ in range(2):
            request = SkillInvocationRequest(tool_name="echo", payload={}, idempotency_key="once")
            error = error_of(await raven.calls.invoke(request, CallContext("session")))
            assert (error["code"], "nothing was sent" in error["message"]) == ("TOOL_UNAVAILABLE", True)
        await raven.aclose()


async def test_one_program_serves_many_calls_and_ends_with_the_home(tmp_path: Path) -> None:
    """Calls share the process; another tool with the same parameters does too; none is left behind."""
    with opened(tmp_path, line(OLD)) as raven:
        await define(raven, "pid", dict(OLD))
        pids = {str((await call(raven, "pid")).output) for _ in range(3)}
        assert len(pids) == 1
        pid = int(pids.pop())
        assert Path(f"/proc/{pid}").exists()
        await raven.aclose()
        assert not Path(f"/proc/{pid}").exists()


def test_a_program_ends_with_the_loop_that_started_it(tmp_path: Path) -> None:
    """Whoever only runs a loop and closes the home leaves no process and no open pipe."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        with opened(tmp_path, line(OLD)) as raven:
            asyncio.run(define(raven, "pid", dict(OLD)))
            pids = [int(str(asyncio.run(call(raven, "pid")).output)) for _ in range(2)]
        gc.collect()
    assert pids[0] != pids[1]
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []
    assert [str(one.message) for one in told] == []


@pytest.mark.req("AD-04")
async def test_a_secret_reaches_the_program_in_a_variable_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server gets the owner's secret and nothing else of our environment, for the owner alone; no row has it."""
    monkeypatch.setenv("TWINRAVEN_NOISE", "loud")
    with opened(tmp_path, line(OLD, "SHOP_KEY")) as raven:
        await raven.vault.create("default", "local", name="shop-key", type="api_key", value="canary-7c2d41aa")
        params = {**OLD, "secret_env": "SHOP_KEY"}
        await define(raven, "variable", params, secret="shop-key", shared=True)
        assert (await call(raven, "variable", text="SHOP_KEY")).output == "canary-7c2d41aa"
        assert "TWINRAVEN_NOISE" not in str((await call(raven, "variable")).output)
        other = SkillInvocationRequest(tool_name="variable", payload={"text": "SHOP_KEY"})
        refused = await raven.calls.invoke(other, CallContext("session", caller="somebody"))
        assert error_of(refused)["code"] == "POLICY_VIOLATION"
        raven.collector.flush()
        assert "canary-7c2d41aa" not in all_text(raven)
        await raven.aclose()


_REFUSED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "nothing is allowed": ((), dict(OLD)),
    "another program": (("/usr/bin/true",), dict(OLD)),
    "other arguments": ((line(OLD),), {**OLD, "args": ["-c", "print()"]}),
    "a variable that is not listed": ((line(OLD, "SHOP_KEY"),), {**OLD, "env": {"PYTHONSTARTUP": "/tmp/x.py"}}),
}


@pytest.mark.parametrize("case", _REFUSED)
async def test_programs_that_the_operator_did_not_allow_are_not_started(tmp_path: Path, case: str) -> None:
    """Whoever may define tools may not thereby run what they like on this machine."""
    programs, params = _REFUSED[case]
    with opened(tmp_path, *programs) as raven:
        await define(raven, "pid", params)
        error = error_of(await call(raven, "pid"))
        assert error["code"] == "POLICY_VIOLATION"
        assert "may not" in error["message"]
        found = await raven.defined.health.check_health(LOCAL, "pid")
        assert (found.status, "may not" in str(found.error_message)) == (HealthStatus.DOWN, True)
        await raven.aclose()


async def test_what_stands_behind_an_allowed_beginning_is_the_tools_own(tmp_path: Path) -> None:
    """The operator allows beginnings of command lines."""
    with opened(tmp_path, line(OLD)) as raven:
        await define(raven, "echo", {**OLD, "args": [*OLD["args"], "--revision", "2025-03-26"]})
        assert (await call(raven, "echo", text="x")).status == "success"
        await raven.aclose()


async def test_an_address_inside_is_refused(tmp_path: Path) -> None:
    """MCP servers of the catalogue are held to the same addresses as every other service."""
    with http_server("http") as port, opened(tmp_path, private=False) as raven:
        await define(raven, "get_order", {"endpoint": f"http://127.0.0.1:{port}/mcp"}, protocol="http")
        assert error_of(await call(raven, "get_order", order_id="7"))["code"] == "POLICY_VIOLATION"
        await raven.aclose()


@pytest.mark.parametrize(("effect", "code"), [("read", "TOOL_FAILED"), ("write", "EFFECT_UNKNOWN")])
async def test_a_server_that_dies_during_a_call(tmp_path: Path, effect: str, code: str) -> None:
    """A read failed; of a write nobody knows whether it took effect. The next call finds a new process."""
    with opened(tmp_path, line(OLD)) as raven:
        await define(raven, "die", dict(OLD), effect=effect)
        await define(raven, "pid", dict(OLD))
        request = SkillInvocationRequest(tool_name="die", payload={}, idempotency_key="k")
        died = error_of(await raven.calls.invoke(request, CallContext("session")))
        assert died["code"] in (code, "TOOL_UNAVAILABLE" if effect == "read" else code)
        await asyncio.sleep(1)
        assert (await call(raven, "pid")).status == "success"
        await raven.aclose()


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({}, "command"),
        ({"command": "x", "args": "y"}, "args"),
        ({"command": "x", "env": {"A": 1}}, "env"),
    ],
)
async def test_parameters_that_name_no_server_are_named(tmp_path: Path, params: dict[str, Any], field: str) -> None:
    """The tool is refused, and the error says which parameter cannot be used."""
    with opened(tmp_path) as raven, pytest.raises(InvalidDefinition, match=f"connection_params.{field}"):
        await define(raven, "pid", params)


def test_a_setting_that_names_no_program_is_refused(tmp_path: Path) -> None:
    """Neither variables alone nor an open quotation mark are a command line."""
    for number, text in enumerate(("KEY=", "npx 'open")):
        with (
            opened(tmp_path / str(number), text) as raven,
            pytest.raises(InvalidSetting, match=r"names no program|not a command line"),
        ):
            raven.services.connectors()


async def start(servers: ServiceServers, revision: str) -> int:
    """The process of a server that stands for itself by the revision it speaks."""
    config = ServerConfig("old", "stdio", command=OLD["command"], args=(*OLD["args"], "--revision", revision))
    async with servers.lease("default", NamedServer(config)) as upstream:
        answer = await upstream.call("pid", {})
    return int(answer["content"][0]["text"])


def are_running(*pids: int) -> list[bool]:
    return [Path(f"/proc/{pid}").exists() for pid in pids]


async def test_servers_that_nobody_uses_are_closed() -> None:
    """One that was idle for minutes ends when another is asked for, and so does the oldest of too many."""
    now = 0.0
    guard = AddressGuard(AddressRules.of([]))
    servers = ServiceServers(guard, ProgramRules.of([line(OLD)]), most=2, monotonic=lambda: now)
    first, second = await start(servers, "2024-11-05"), await start(servers, "2025-03-26")
    assert are_running(first, second) == [True, True]
    now = 301.0
    assert await start(servers, "2025-03-26") == second
    assert are_running(first, second) == [False, True]
    third, fourth = await start(servers, "2025-06-18"), await start(servers, "2024-11-05")
    assert are_running(second, third, fourth) == [False, True, True]
    await servers.aclose()
    assert are_running(third, fourth) == [False, False]
