"""The page about exports shows what really comes out, and its example runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.flow.fakes import entry
from tests.unit.registry.exports.test_learned_shapes import exported
from tests.unit.registry.exports.worlds import load
from twinraven.registry import export_tool

PAGE = Path(__file__).parents[4] / "docs" / "how-to" / "export-a-tool.md"
SHOWN = "find_user_by_email_get_user_get_order_each"


def find_user_by_email(email: str) -> dict[str, Any]:
    return {"user_id": f"U-{email}"}


def get_user(user_id: str) -> dict[str, Any]:
    return {"user_id": user_id, "order_ids": ["O-1", "O-2"]}


def get_order(order_id: str) -> dict[str, Any]:
    if order_id == "O-2":
        raise LookupError("no such order")
    return {"order_id": order_id}


TOOLS = {"find_user_by_email": find_user_by_email, "get_user": get_user, "get_order": get_order}


def test_the_page_shows_the_function_and_its_example_runs() -> None:
    """The function on the page is the exported one, and the call beside it gives what the page promises."""
    function, example = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    text = exported(SHOWN)[1]
    assert function.strip() == text.split("\n\n\n")[1].strip()
    module = load(text)
    module["my_tools"] = TOOLS
    exec(compile(example, "page", "exec", dont_inherit=True), module)
    assert module["answer"] == {
        "result": [{"order_id": "O-1"}, None],
        "earlier": [
            {"tool_id": "find_user_by_email", "output": {"user_id": "U-ada@example.org"}},
            {"tool_id": "get_user", "output": {"user_id": "U-ada@example.org", "order_ids": ["O-1", "O-2"]}},
        ],
        "incomplete": [
            {
                "tool_id": "get_order",
                "status": "ran",
                "error": {"code": "TOOL_FAILED", "message": "no such order", "retryable": False, "details": {}},
            }
        ],
    }


def test_the_example_in_a_skill_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that fills in the arguments and has a client can run what SKILL.md shows, from the skill's folder."""
    made = export_tool(exported(SHOWN)[0], "skill", entry, holds_secret=lambda _: False)
    for name, text in made.files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (example,) = re.findall(r"```python\n(.*?)```", (tmp_path / "SKILL.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    class Client:
        async def call_tool(self, tool: str, arguments: dict[str, Any]) -> Any:
            return TOOLS[tool](**arguments)

    module: dict[str, Any] = {"my_client": Client()}
    exec(compile(example.replace("email=...", 'email="ada"'), "skill", "exec", dont_inherit=True), module)
    monkeypatch.delitem(sys.modules, SHOWN)
    assert module["answer"]["result"] == [{"order_id": "O-1"}, None]
