"""The client without an event loop is the other one, but for what has to be awaited."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Iterator
from typing import Any, assert_type, get_args

import pytest

from twinraven.catalog import Effect, HealthStatus, Sensitivity, ServiceType, WireProtocol
from twinraven.sdk import AsyncClient, Client, ServiceInfo, ToolDefinition, ToolInfo, catalogue_model
from twinraven.sdk.operations import Operations

NAMES = [name for name, _ in inspect.getmembers(Operations, callable) if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_both_clients_take_the_same(name: str) -> None:
    """Each operation is there without a loop, under the same name, with the same parameters and the same words."""
    ours, theirs = getattr(Client, name), getattr(AsyncClient, name)
    mine, other = inspect.signature(ours), inspect.signature(theirs)
    assert list(mine.parameters.values()) == list(other.parameters.values())
    assert ours.__doc__ == theirs.__doc__
    assert str(mine.return_annotation) == str(other.return_annotation).replace("AsyncGenerator", "Iterator")
    assert not inspect.iscoroutinefunction(ours)
    assert not inspect.isasyncgenfunction(ours)


def test_neither_client_can_do_more() -> None:
    """Besides the operations there is recording a session, and coming to an end."""
    own = {"observe", "close", "aclose"}
    for client in (Client, AsyncClient):
        members = {name for name, _ in inspect.getmembers(client, callable) if not name.startswith("_")}
        assert members - own == set(NAMES)


def test_type_checkers_see_the_same() -> None:
    """The types are those of the operations; a checker reads this test, which calls nothing."""

    async def looped(client: AsyncClient) -> None:
        assert_type(client.services(), AsyncGenerator[ServiceInfo])
        assert_type(await client.change_tool("t", effect=None), ToolDefinition)

    def blocking(client: Client) -> None:
        assert_type(client.services(), Iterator[ServiceInfo])
        assert_type(client.tool("t"), ToolInfo)
        assert_type(client.change_tool("t", effect=None, version=3), ToolDefinition)
        client.tool(7)  # pyright: ignore[reportArgumentType]
        client.change_service("s", title="x")  # pyright: ignore[reportCallIssue]
        client.delete_tool()  # pyright: ignore[reportCallIssue]

    assert callable(looped)
    assert callable(blocking)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (catalogue_model.ServiceType, ServiceType),
        (catalogue_model.WireProtocol, WireProtocol),
        (catalogue_model.Health, HealthStatus),
        (catalogue_model.Effect, Effect),
        (catalogue_model.Sensitivity, Sensitivity),
    ],
)
def test_the_words_are_those_of_the_catalogue(words: Any, kind: Any) -> None:
    """What a client may say of a definition is what the catalogue knows."""
    assert set(get_args(words)) == {each.value for each in kind}
