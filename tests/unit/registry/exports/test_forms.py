"""Each form is what its readers take: Python that parses, MCP and OpenAI within their rules, skills within limits."""

from __future__ import annotations

import ast
import inspect
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import types

from tests.unit.flow.fakes import define, entry, seed_json, step
from tests.unit.registry.exports.worlds import definitions, own_part, writes
from twinraven.catalog import Effect, ToolEntry
from twinraven.flow import FlowRun, Schedule, ToolLookup
from twinraven.foundation.errors import InvalidDefinition
from twinraven.foundation.json_schema import compile_schema
from twinraven.registry import SynthesizedTool
from twinraven.registry.exports import EXPORT_FORMS, ExportForm, ToolExport, export_tool, pieces
from twinraven.registry.exports.documentation import Phrases
from twinraven.registry.exports.layout import WIDTH
from twinraven.registry.exports.names import one_line
from twinraven.registry.exports.python import python_module

HOSTILE = st.one_of(
    st.text(min_size=1, max_size=40),
    st.sampled_from(
        ['"""\nimport os\n"""', "'''", "\\", 'x"', "---\nname: evil\n---", "`` ` ``", "|", "\u202e", "\x00"]
    ),
)


def find(tool_id: str) -> ToolEntry | None:
    return entry(tool_id)


def export(definition: SynthesizedTool, form: ExportForm, find: ToolLookup = find) -> ToolExport:
    return export_tool(definition, form, find, holds_secret=lambda _: False)


def seed(**changes: Any) -> SynthesizedTool:
    return SynthesizedTool.from_json({**seed_json(), **changes})


def text_of(made: ToolExport) -> str:
    return next(iter(made.files.values()))


def front_matter(page: str) -> dict[str, Any]:
    return yaml.safe_load(page.split("\n---\n", 1)[0].removeprefix("---\n"))


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_the_same_definition_gives_the_same_bytes(form: Any) -> None:
    """The format's own example exports to every form, twice the same."""
    assert export(seed(), form) == export(seed(), form)


@pytest.mark.parametrize("changes", [{}, {"error_strategy": {"default_behavior": "skip"}, "timeout_ms": 60_000}])
def test_exported_code_is_formatted_and_lint_free(changes: dict[str, Any], tmp_path: Path) -> None:
    """A formatter has nothing to change in an export, and a linter nothing to say."""
    file = tmp_path / "exported.py"
    file.write_text(python_module(seed(**changes), writes=writes))
    for command in (["format", "--check"], ["check", "--select", "E,F,I,W,B,UP"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length=120", "--target-version=py311"]
        done = subprocess.run([*ruff, str(file)], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode()


@settings(max_examples=25, deadline=None)
@given(HOSTILE, HOSTILE, HOSTILE.filter(str.isprintable))
def test_no_text_breaks_out(description: str, key: str, tool_id: str) -> None:
    """Descriptions, parameter names, keys and tool ids stay text in code and in the page, whatever is in them."""
    parameters = {"type": "object", "properties": {key: {"type": "string", "description": description}}}
    tool = define(
        step(tool_id, {key: {"$literal": {key: description}}}),
        step(tool_id, {"x": "$.steps[0].output"}),
        description=description,
        parameters=parameters,
    )
    tree = ast.parse(text := own_part(python_module(tool, writes=lambda _: False)))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert imported <= sys.stdlib_module_names
    function = next(node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    assert function.name == "composite"
    data = next(
        node for node in tree.body if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "DEFINITION"
    )
    both = [*ast.walk(function), *ast.walk(data)]
    constants = {node.value for node in both if isinstance(node, ast.Constant)}
    assert {tool_id, key} <= constants
    compile(text, "exported", "exec")
    page = export(tool, "skill").files["SKILL.md"]
    assert front_matter(page)["name"] == "composite"
    headings = [line for line in page.split("\n---\n", 1)[1].splitlines() if line.startswith("#")]
    assert headings == [
        "# Composite",
        "## When to use it",
        "## What to pass",
        "## What comes back",
        "## How to run it",
        "## By hand",
    ]


@pytest.mark.parametrize("effect", list(Effect))
def test_mcp_accepts_the_definition(effect: Effect) -> None:
    """The SDK reads the entry, and only a tool that just reads says so."""
    body = json.loads(text_of(export(seed(), "mcp", lambda tool_id: entry(tool_id, effect=effect))))
    tool = types.Tool.model_validate(body)
    assert tool.name == "search_read_summarize"
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is (effect is Effect.READ)
    assert tool.annotations.destructive_hint is (effect is not Effect.READ)


@settings(max_examples=15, deadline=None)
@given(st.from_regex(r"[a-z][a-z0-9_-]{0,127}", fullmatch=True), st.text(min_size=1, max_size=4_000))
def test_names_and_words_keep_to_the_limits(tool_id: str, description: str) -> None:
    """OpenAI's and the skills' limits hold for every name that the registry takes, and a cut is told."""
    tool = seed(tool_id=tool_id, description=description)
    made = export(tool, "openai")
    function = json.loads(text_of(made))["function"]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"])
    assert len(function["description"]) <= 1_024
    assert len(made.notes) == (len(tool_id) > 64) + (len(tool.description) > 1_024)
    compile_schema(function["parameters"])
    skill = export(tool, "skill")
    known = front_matter(skill.files["SKILL.md"])
    assert known["name"] == skill.name
    assert len(skill.name) <= 64
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", skill.name)
    assert len(known["description"]) <= 1_024
    cut = (len(re.sub(r"[^a-z0-9]+", "-", tool_id).strip("-")) > 64) + (len(one_line(description)) > 1_024)
    assert len(skill.notes) == cut


@settings(max_examples=6, deadline=None)
@given(definitions(is_rich=True))
def test_a_skill_brings_the_definition_back(definition: SynthesizedTool) -> None:
    """The definition in a skill's folder is one that the registry reads, with the same steps."""
    try:
        files = export(definition, "skill").files
    except InvalidDefinition:
        return
    back = SynthesizedTool.from_json(json.loads(files["definition.json"]))
    assert back.steps == definition.steps
    assert set(files) == {"SKILL.md", "definition.json", "scripts/composite.py"}


def test_a_version_out_of_service_says_so() -> None:
    """Drafts and retired versions can be taken along, with a word about it."""
    assert export(seed(status="draft"), "skill").notes == ("version 2 is draft, not in service",)
    assert export(seed(), "skill").notes == ()


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("$.parameters.ids[1]", "the second element of the parameter `ids`"),
        ("$.parameters", "`parameters`"),
        ("$.steps[0].output", "the answer of step 1"),
        ("$.internal_wiring.0.id.deep", "`deep` in `id` in the answer of step 1"),
        ({"$string": "$.steps[0].output.n"}, "`n` in the answer of step 1, as text"),
        ({"$integer": "$.parameters.q"}, "the parameter `q`, as an integer"),
        ({"$affix": {"of": "$.parameters.q", "before": "#"}}, '`"#"` followed by the parameter `q`'),
        (
            {"$part": {"of": "$.parameters.q", "separator": "-", "index": 2}},
            'piece `2` (counted from 0) of the parameter `q`, split at `"-"`',
        ),
        ({"$literal": "$.x"}, '`"$.x"`'),
        (
            {"$read": {"of": "$.steps[0].output", "as": "json", "at": "$.items[0].id"}},
            "`items[0].id` in the answer of step 1, read as JSON",
        ),
        (
            {"$read": {"of": "$.parameters.q", "as": "urls", "at": "$[0]"}},
            "the first element of the urls in the parameter `q`",
        ),
        ({"$at": {"of": "$.item", "path": "$.id"}}, "`id` in the element"),
        ({"$join": ["$.parameters.q", "/x"]}, 'the parameter `q` followed by `"/x"`'),
        ({"$map": {"over": "$.parameters.q"}}, "the parameter `q`"),
        ({"$map": {"over": "$.parameters.q", "to": "$.item.id"}}, "`id` of each element of the parameter `q`"),
        (
            {"$map": {"over": "$.parameters.q", "to": {"$join": ["#", "$.item"]}}},
            '`"#"` followed by the element, for each element of the parameter `q`',
        ),
        (
            {"$where": {"of": "$.parameters.q", "at": "$.tag", "equals": "FILE", "first": True}},
            'the first element whose `tag` is `"FILE"` in the parameter `q`',
        ),
        ({"$where": {"of": "$.parameters.q", "equals": 1}}, "the elements equal to `1` in the parameter `q`"),
        ([1, "$.item"], '`[1, "$.item"]`'),
    ],
)
def test_references_are_said_as_people_say_them(value: Any, words: str) -> None:
    """What is passed to a step is a phrase, as far as there is one for it."""
    tool = define(step("a", {}), internal_wiring={"0": {"id": "$.steps[0].output.id"}})
    assert Phrases(tool, lambda text: f"`{text}`").of(value) == words


def test_tools_nobody_knows_are_named() -> None:
    """A tool that is not in the catalogue counts as a write, and the reader is told why."""
    made = export(seed(), "mcp", lambda _: None)
    assert json.loads(text_of(made))["annotations"]["destructiveHint"] is True
    assert made.notes == ("not in the catalogue, and taken for tools that write: search, read, summarize",)


@pytest.mark.parametrize("form", EXPORT_FORMS)
def test_a_definition_with_a_secret_stays(form: ExportForm) -> None:
    """What holds a value of the vault is not exported in any form, and the refusal does not repeat it."""
    tool = define(step("login", {"password": "correct-horse"}))
    with pytest.raises(InvalidDefinition, match="holds a secret") as refused:
        export_tool(tool, form, find, holds_secret=lambda text: b"correct-horse" in text)
    assert "correct-horse" not in str(refused.value)


def test_the_runner_is_the_source_that_serves_production() -> None:
    """Names are unique across the modules that it is cut from, so that none takes another's place unsaid."""
    stand_ins = {"to_json_value", "canonical_json", "_write_foreign", "Schema", "compile_schema"}
    seen: dict[str, str] = {}
    for package, names in pieces._SOURCES.items():  # pyright: ignore[reportPrivateUsage] - what the runner is made of
        for name in names:
            tree = ast.parse(files(package).joinpath(f"{name}.py").read_text())
            for node in tree.body:
                defined = pieces._defined(node)  # pyright: ignore[reportPrivateUsage]
                assert not defined or defined not in seen or (name == "standalone" and defined in stand_ins), defined
                seen[defined] = name
    text = python_module(seed(), writes=writes)
    assert inspect.getsource(Schedule) in text
    assert inspect.getsource(FlowRun) in text


@settings(max_examples=20, deadline=None)
@given(st.text(alphabet="ab \\'\"\n\u202eé", max_size=600), st.integers(0, 5))
def test_long_texts_are_wrapped_and_stay_the_same(text: str, depth: int) -> None:
    """However long a literal is and however deep it stands, no line is too long and nothing of it is lost."""
    value: Any = {"$literal": text}
    for _ in range(depth):
        value = {"inside": [value]}
    code = own_part(python_module(define(step("say", {"words": value})), writes=writes))
    assert max(map(len, code.splitlines())) <= WIDTH
    assert text in {node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)}


def test_a_skill_says_what_an_agent_needs() -> None:
    """When, what to pass, what comes back, how to run it, and the calls by hand, all in words."""
    tool = define(
        step("find_user", {"email": "$.parameters.email"}),
        step("get_order", {"id": "$.item.id", "detail": "full"}, for_each="$.internal_wiring.0.orders", max_items=50),
        parameters={"type": "object", "properties": {"email": {"type": "string"}}, "required": ["email"]},
        internal_wiring={"0": {"orders": "$.steps[0].output.orders"}},
        error_strategy={"default_behavior": "skip", "abort_conditions": ["$.steps[0].output == null"]},
    )
    page = export(tool, "skill").files["SKILL.md"]
    for words in (
        "Use it instead of calling `find_user` and `get_order` one after another.",
        "It only reads",
        "| `email` | `str` | yes |  |",
        "- `result`: what `get_order` answered, a list with one answer for each item, null where its call failed",
        "answer = asyncio.run(composite(call, email=...))",
        "2. Call `get_order` for each element of `orders` in the answer of step 1 (50 at most) with:",
        "   - `id`: `id` in the element",
        '   - `detail`: `"full"`',
        "   - If it fails, go on without it and say so.",
    ):
        assert words in page
    assert "$." not in page
