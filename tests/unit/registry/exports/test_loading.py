"""Each form is taken as it is by what reads it, also where the definition's names are none that Python could have."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from agents import FunctionTool
from agents.tool_context import ToolContext
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import types
from openai.types.chat import ChatCompletionFunctionToolParam
from pydantic import TypeAdapter

from tests.unit.flow.fakes import define, entry, step
from tests.unit.registry.exports.worlds import load
from twinraven.foundation.json_schema import compile_schema
from twinraven.registry import SynthesizedTool
from twinraven.registry.exports import ExportForm, ToolExport, export_tool

ODD = ["None", "incomplete", "call", "class", "match", "at", "list", "RuntimeError", "asyncio", "order-id", "order id"]
NAMES = st.lists(st.one_of(st.sampled_from(ODD), st.from_regex(r"[a-z_]\w{0,8}", fullmatch=True)), unique=True)
TOOLS = st.sampled_from(["composite", "queue", "len", "next", "call", "json", "class", "import", "at", "typing"])
OPENAI: TypeAdapter[Any] = TypeAdapter(ChatCompletionFunctionToolParam)


def odd_tool(names: list[str], *, tool_id: str = "composite", **fields: Any) -> SynthesizedTool:
    """Two steps, the first of which is passed each parameter under its own name."""
    given = {f"p{number}": f"$.parameters['{name}']" for number, name in enumerate(names)}
    parameters = {"type": "object", "properties": {name: {"type": "integer"} for name in names}, "required": names}
    last = step("second", {"all": "$.steps[0].output"})
    return define(step("first", given), last, tool_id=tool_id, **{"parameters": parameters, **fields})


def export(definition: SynthesizedTool, form: ExportForm) -> ToolExport:
    return export_tool(definition, form, entry, holds_secret=lambda _: False)


def text_of(definition: SynthesizedTool, form: ExportForm) -> str:
    return next(iter(export(definition, form).files.values()))


def function_of(definition: SynthesizedTool) -> Any:
    made = export(definition, "python")
    return load(made.files[made.name])[made.name.removesuffix(".py")]


def passed(page: str) -> list[str]:
    """The names in a skill's table of what to pass."""
    return re.findall(r"^\| `([^`]+)` \|", page, re.MULTILINE)


@settings(max_examples=20, deadline=None)
@given(NAMES, TOOLS)
async def test_a_skill_names_what_its_function_takes(names: list[str], tool_id: str) -> None:
    """The table, the call and the steps by hand speak of the function's parameters; given by them, all arrive."""
    tool = odd_tool(names, tool_id=tool_id)
    page = export(tool, "skill").files["SKILL.md"]
    function = function_of(tool)
    taken = list(inspect.signature(function).parameters)[1:]
    assert passed(page) == taken
    assert re.findall(r"(\S+)=\.\.\.", page) == taken
    assert re.findall(r"the parameter `([^`]+)`", page) == taken
    made: list[dict[str, Any]] = []

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        made.append(arguments)
        return tool

    answer = await function(call, **{name: number for number, name in enumerate(taken)})
    assert made[0] == {f"p{number}": number for number in range(len(names))}
    assert answer == {"result": "second", "earlier": [{"tool_id": "first", "output": "first"}]}


def test_a_name_that_python_cannot_have_is_said_beside_its_own() -> None:
    """Whoever knows the definition finds each parameter again, in the docstring as in the skill."""
    tool = odd_tool(["None", "call", "plain"])
    page, told = export(tool, "skill").files["SKILL.md"], function_of(tool).__doc__
    assert passed(page) == ["None_", "call_2", "plain"]
    assert '| `None_` | `int` | yes | "None" in the definition |' in page
    assert 'None_: "None" in the definition' in told
    assert "plain:" not in told


def test_parameters_that_are_only_asked_for_are_in_the_table() -> None:
    """A definition that declares nothing may still use parameters; its function takes them, so the skill says so."""
    tool = odd_tool(["q"], parameters={"type": "object"})
    assert passed(export(tool, "skill").files["SKILL.md"]) == ["q"]


@pytest.mark.parametrize("tool_id", ["composite", "queue", "len"])
def test_a_skill_runs_as_its_page_says(tool_id: str, tmp_path: Path) -> None:
    """The page's own code, run in the skill's folder, makes the calls; a name of Python's own is no obstacle."""
    tool = odd_tool(["None", "incomplete"], tool_id=tool_id)
    files = export(tool, "skill").files
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (code,) = re.findall(r"```python\n(.*?)```", files["SKILL.md"], re.DOTALL)
    client = "class my_client:\n    async def call_tool(tool, arguments):\n        return [tool, len(arguments)]\n"
    program = f"{client}{code}print(answer['result'], answer['earlier'][0]['output'])"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "['second', 1] ['first', 2]"), done.stderr


@settings(max_examples=15, deadline=None)
@given(NAMES)
def test_front_matter_is_what_skill_hosts_read(names: list[str]) -> None:
    """Name, description and metadata are texts, and the page begins with nothing else."""
    made = export(odd_tool(names), "skill")
    head, _, page = made.files["SKILL.md"].removeprefix("---\n").partition("\n---\n")
    known = yaml.safe_load(head)
    assert set(known) == {"name", "description", "metadata"}
    assert known["name"] == made.name
    assert all(isinstance(word, str) for word in (known["description"], *known["metadata"].values()))
    assert page.startswith("\n# ")


@settings(max_examples=15, deadline=None)
@given(NAMES, st.booleans())
def test_mcp_and_openai_take_the_definition(names: list[str], is_declared: bool) -> None:
    """Both read an object with the definition's own names, by which the learned tool is called."""
    tool = odd_tool(names) if is_declared else odd_tool(names, parameters={"type": "object"})
    entry = types.Tool.model_validate_json(text_of(tool, "mcp"), strict=True)
    function = OPENAI.validate_json(text_of(tool, "openai"), strict=True)["function"]
    for schema in (entry.input_schema, function["parameters"]):
        assert schema["type"] == "object"
        assert list(schema.get("properties", {})) == (names if is_declared else [])
        compile_schema(schema)
    assert entry.output_schema is not None
    compile_schema(entry.output_schema)


async def test_an_agent_of_openai_is_given_the_function() -> None:
    """The schema makes a tool of the agents library as it is, and its arguments reach the exported function."""
    tool = odd_tool(["order_id"])
    described = json.loads(text_of(tool, "openai"))["function"]
    run = function_of(tool)

    async def call(tool: str, arguments: dict[str, Any]) -> Any:
        return [tool, arguments]

    async def invoke(context: ToolContext[Any], text: str) -> Any:
        del context
        return await run(call, **json.loads(text))

    offered = FunctionTool(
        described["name"], described["description"], described["parameters"], invoke, strict_json_schema=False
    )
    context: Any = None
    answer = await offered.on_invoke_tool(context, '{"order_id": 7}')
    assert answer["earlier"][0]["output"] == ["first", {"p0": 7}]
