"""Reads a server's list of tools one by one: a malformed tool is skipped, the others are kept.

The SDK takes a list as a whole or not at all. So what a revision does not allow is taken out before the SDK looks, and
kept beside the list with the reason, for whoever looks after the server.
"""

from __future__ import annotations

from typing import Any, Final, cast

from mcp_types import methods
from pydantic import ValidationError

from twinraven.connectors.mcp.model import Definition, Listing, UnusableTool

LIST_TOOLS: Final = "tools/list"
_LEFT_OUT: Final = "twinraven.left_out"
_LONGEST_NAME: Final = 100


def sift(answer: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a page of tools with those alone that the revision allows, and the others noted in it."""
    members = {name: value for name, value in answer.items() if name != _LEFT_OUT}
    listed: Any = members.get("tools")
    if not isinstance(listed, list) or _fault(members, version) is None:
        return members
    if _fault({**members, "tools": []}, version) is not None:
        # The page itself is wrong, which the SDK says.
        return members
    tools, left_out = list[Any](), list[UnusableTool]()
    for tool in cast("list[Any]", listed):
        fault = _fault({**members, "tools": [tool]}, version)
        if fault is None:
            tools.append(tool)
        else:
            left_out.append(UnusableTool(_name(tool), _reason(fault, beyond=2)))
    return {**members, "tools": tools, _LEFT_OUT: left_out}


def joined(pages: list[dict[str, Any]]) -> Listing:
    """Return the whole list, of pages that were sifted."""
    tools = [tool for page in pages for tool in cast("list[Definition]", page["tools"])]
    left_out = [one for page in pages for one in cast("list[UnusableTool]", page.get(_LEFT_OUT, []))]
    return Listing(tools, tuple(left_out))


def describe(error: ValidationError) -> str:
    """Describe a validation error in one line: the path, and what should be there."""
    return _reason(error, beyond=0)


def _fault(page: dict[str, Any], version: str) -> ValidationError | None:
    try:
        methods.validate_server_result(LIST_TOOLS, version, page)
    except ValidationError as error:
        return error
    except KeyError:
        return None
    return None


def _reason(error: ValidationError, *, beyond: int) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"][beyond:])
    return f"{where}: {first['msg']}" if where else first["msg"]


def _name(tool: Any) -> str:
    stated = cast("Definition", tool).get("name") if isinstance(tool, dict) else None
    return stated[:_LONGEST_NAME] if isinstance(stated, str) and stated else "(no name)"
