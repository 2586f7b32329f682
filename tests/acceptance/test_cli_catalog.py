"""Services, templates and data-defined tools from a shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.cli import Shell, home_in

_FILE = """
serviceTemplates:
  - {name: web-shop, type: rest_api, protocol: https, connectionSchema: &connection {type: object}}
toolTemplates:
  - name: order-reader
    operation: {type: rest_call, method: GET, path: "/orders/{{order_id}}"}
    inputSchema: {type: object, required: [order_id], properties: {order_id: {type: string}}}
services:
  - {name: shop, type: rest_api, protocol: https, requiresSecret: true, connectionSchema: *connection}
tools:
  - key: get_order
    service: shop
    secret: shop-key
    connectionParams: {endpoint: https://shop.example}
    operation: {type: rest_call, method: GET, path: "/orders/{{order_id}}"}
    inputSchema: {type: object, required: [order_id], properties: {order_id: {type: string}}}
"""


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    shell = home_in(tmp_path)
    (tmp_path / "catalogue.yaml").write_text(_FILE)
    shell.succeed("secrets", "set", "shop-key", stdin=b"correct-horse-battery-staple")
    return shell


def actions(shell: Shell, *options: str) -> list[str]:
    return [one["action"] for one in shell.json("services", "apply", "catalogue.yaml", *options)]


def test_a_file_is_tried_applied_and_exported(shell: Shell) -> None:
    """A dry run changes nothing, applying twice changes nothing more, and an export applies as unchanged."""
    assert actions(shell, "--dry-run") == ["created"] * 4
    assert shell.json("services", "list") == []
    assert actions(shell) == ["created"] * 4
    assert actions(shell) == ["unchanged"] * 4
    exported = shell.succeed("services", "export").out
    assert b"shop-key" in exported
    assert b"correct-horse" not in exported
    again = shell.succeed("services", "apply", "-", "--output", "json", stdin=exported).json
    assert {one["action"] for one in again} == {"unchanged"}
    assert shell.json("audit", "verify")["ok"] is True


def test_a_fault_in_a_file_is_named(shell: Shell, tmp_path: Path) -> None:
    """The error says which definition and what is wrong in it, and nothing is made."""
    (tmp_path / "catalogue.yaml").write_text(_FILE.replace("secret: shop-key", "name: Order"))
    ended = shell.run("services", "apply", "catalogue.yaml")
    assert ended.code == 2
    assert "tools[0] (get_order): secret is missing" in ended.err
    assert shell.run("services", "apply", "gone.yaml").code == 2
    assert shell.json("services", "list") == []


@pytest.mark.parametrize(
    ("what", "on", "off", "field"),
    [
        ("services shop", "enable", "disable", "enabled"),
        ("services shop", "share", "unshare", "shared"),
        ("tools get_order", "enable", "disable", "enabled"),
        ("tools get_order", "share", "unshare", "shared"),
        ("templates tool order-reader", "share", "unshare", "shared"),
        ("templates tool order-reader", "archive", "unarchive", "archived"),
    ],
)
def test_every_switch_turns_both_ways(shell: Shell, what: str, on: str, off: str, field: str) -> None:
    """What one word switches off its counterpart switches on, and the store keeps it."""
    actions(shell)
    group, *item = what.split()
    assert shell.json(group, on, *item)[field] is True
    assert shell.json(group, off, *item)[field] is False
    assert shell.json(group, on, *item)[field] is True
    shown = ("definition" if group == "tools" else "show", *item)
    assert shell.json(group, *shown)[field] is True


def test_what_a_file_made_can_be_switched_and_removed(shell: Shell) -> None:
    """In the order that uses allow."""
    actions(shell)
    assert shell.json("services", "share", "shop")["shared"] is True
    assert shell.json("services", "disable", "shop")["status"] == "down"
    assert shell.json("tools", "disable", "get_order")["enabled"] is False
    assert shell.json("tools", "definition", "get_order")["error_message"] == "disabled"
    listed = {row["tool_id"]: (row["callable"], row["reason"]) for row in shell.json("tools", "list")}
    assert listed["get_order"] == (False, "disabled")
    assert shell.json("tools", "show", "get_order")["callable"] is False
    refused = shell.run("services", "rm", "shop")
    assert (refused.code, "used by tool 'get_order'" in refused.err) == (1, True)
    assert shell.run("secrets", "rm", "shop-key").code == 1
    shell.succeed("tools", "rm", "get_order")
    shell.succeed("services", "rm", "shop")
    shell.succeed("secrets", "rm", "shop-key")
    assert shell.run("services", "show", "shop").code == 2


@pytest.mark.req("AD-08")
def test_templates_become_services_and_tools(shell: Shell) -> None:
    """What is made keeps its template's id, and does not notice when that is archived."""
    actions(shell)
    made = shell.json("services", "create", "second", "--template", "web-shop")
    template = shell.json("templates", "show", "service", "web-shop")
    assert made["service_template_id"] == template["id"]
    placed = ("--template", "order-reader", "--service", "second", "--params", '{"endpoint": "https://b.example"}')
    tool = shell.json("tools", "create", "get_other", *placed)
    assert tool["operation"]["path"] == "/orders/{{order_id}}"
    shell.succeed("templates", "archive", "tool", "order-reader")
    assert [one["name"] for one in shell.json("templates", "list")] == ["web-shop"]
    assert len(shell.json("templates", "list", "--include-archived")) == 2
    assert shell.json("tools", "definition", "get_other") == tool
    assert shell.json("templates", "rename", "service", "web-shop", "--name", "store")["name"] == "store"


def test_a_service_can_be_made_of_parts(shell: Shell) -> None:
    """What does not go together is refused by name."""
    parts = ("--type", "neo4j_graph", "--schema", '{"type": "object"}')
    refused = shell.run("services", "create", "graph", "--protocol", "http", *parts)
    assert (refused.code, "a neo4j_graph speaks bolt or bolt+s" in refused.err) == (2, True)
    assert shell.json("services", "create", "graph", "--protocol", "bolt", *parts)["schema_version"] == 1
    stranger = shell.run("services", "list", "--user", "nobody", "--output", "json")
    assert stranger.json == []
