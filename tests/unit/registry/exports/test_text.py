"""Exports that read text and go through lists: they carry the readers they use, and give what the executor gives."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.flow.fakes import define, entry, step
from tests.unit.foundation.text_samples import FILES, TEXTS
from tests.unit.registry.exports.worlds import load
from twinraven.flow import FlowExecutor, StepRun
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.text_readers import READERS, read_text
from twinraven.registry import SynthesizedTool
from twinraven.registry.exports import export_tool
from twinraven.registry.exports.python import python_module, python_name

_FOLDER: dict[str, Any] = {"type": "object", "properties": {"folder": {"type": "string"}}, "required": ["folder"]}
_LISTED = {"$read": {"of": "$.steps[0].output", "as": "tagged"}}
_FILES = {"$where": {"of": _LISTED, "at": "$.tag", "equals": "FILE"}}
_EVERY_READER = {kind: {"$read": {"of": "$.steps[0].output", "as": kind}} for kind in READERS}


def files_tool() -> SynthesizedTool:
    """Reads each file of a folder that a server lists as text."""
    return define(
        step("list_directory", {"path": "$.parameters.folder"}),
        step(
            "read_file",
            {"path": {"$join": ["$.parameters.folder", "/", "$.item"]}},
            for_each="$.internal_wiring.0.files",
            max_items=50,
        ),
        parameters=_FOLDER,
        internal_wiring={"0": {"files": {"$map": {"over": _FILES, "to": "$.item.text"}}}},
    )


def showing(output: dict[str, Any]) -> SynthesizedTool:
    return define(step("show", {}), output=output)


def function_of(definition: SynthesizedTool, text: str) -> Any:
    return load(text)[python_name(definition)]


async def both(definition: SynthesizedTool, function: Any, answer: Any, **parameters: Any) -> tuple[Any, Any]:
    """What the executor and the exported function give where every tool gives one answer."""

    async def call(tool_id: str, arguments: dict[str, Any]) -> Any:
        return answer if tool_id in {"show", "list_directory"} else arguments

    async def invoke(tool_id: str, params: dict[str, Any], *, step: StepRun, timeout_ms: int | None) -> Any:
        del step, timeout_ms
        return await call(tool_id, params)

    result = await FlowExecutor().run(definition, parameters, invoke, writes=lambda _: False)
    return result.output, await function(call, **parameters)


async def test_an_export_carries_its_readers() -> None:
    """A function reads every sample as the executor does; without a reader in the definition, none comes along."""
    definition, function = _ALL
    for text in TEXTS:
        ours, theirs = await both(definition, function, text)
        assert theirs == ours == {kind: read_text(kind, text) for kind in READERS}
    assert "def read_tagged" not in python_module(showing({"x": "$.steps[0].output"}), writes=bool)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(), st.lists(st.sampled_from([*TEXTS, *"[]{}()'\":,|\n\\"])).map("\n".join)))
async def test_any_text_is_read_alike(text: str) -> None:
    """Executor and exported function agree about all readers on any text."""
    ours, theirs = await both(*_ALL, text)
    assert canonical_json(theirs) == canonical_json(ours)


_ALL = (showing(_EVERY_READER), function_of(showing(_EVERY_READER), python_module(showing(_EVERY_READER), writes=bool)))


async def test_a_listed_folder_is_read_alike() -> None:
    """A list inside text is filtered, mapped and gone through, and each call gets the joined path."""
    definition = files_tool()
    text = python_module(definition, writes=lambda _: False)
    ours, theirs = await both(definition, function_of(definition, text), FILES, folder="/data/")
    assert theirs == ours
    assert theirs["result"] == [{"path": "/data/README.md"}, {"path": "/data/my notes.txt"}]


def pages_tool() -> SynthesizedTool:
    """Reads the pages that a list names, or only those that the caller wants of them."""
    only = {"type": "array", "items": {"type": "string"}}
    return define(
        step("list_directory", {"path": "$.parameters.folder"}),
        step("read_page", {"page_id": "$.item.id"}, for_each="$.internal_wiring.0.pages", max_items=50),
        parameters={**_FOLDER, "properties": {**_FOLDER["properties"], "only_page_ids": only}},
        internal_wiring={
            "0": {
                "pages": {
                    "$where": {"of": "$.steps[0].output.pages", "at": "$.id", "among": "$.parameters.only_page_ids"}
                }
            }
        },
    )


async def test_a_map_is_narrowed_alike() -> None:
    """Executor, exported function and skill take the elements that the caller names, and all where it names none."""
    definition = pages_tool()
    function = function_of(definition, python_module(definition, writes=lambda _: False))
    listed = {"pages": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}
    for wanted, pages in (({}, "abc"), ({"only_page_ids": ["c", "a", "x"]}, "ac"), ({"only_page_ids": ["x"]}, "")):
        ours, theirs = await both(definition, function, listed, folder="/", **wanted)
        assert theirs == ours
        assert theirs["result"] == [{"page_id": page} for page in pages]
    page = export_tool(definition, "skill", entry, holds_secret=lambda _: False).files["SKILL.md"]
    assert (
        "2. Call `read_page` for each element of the elements whose `id` is one of the parameter `only_page_ids` (all, "
        "if that is not given) in `pages` in the answer of step 1 (50 at most) with:"
    ) in page


async def test_a_map_is_capped_alike() -> None:
    """Executor, exported function and skill go through the first elements; a caller raises the cap or names others."""
    body = pages_tool().as_json()
    body["parameters"]["properties"]["most_pages"] = {"type": "integer", "default": 2}
    body["internal_wiring"]["0"]["pages"]["$where"]["most"] = "$.parameters.most_pages"
    definition = SynthesizedTool.from_json(body)
    function = function_of(definition, python_module(definition, writes=lambda _: False))
    listed = {"pages": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}
    for wanted, pages in (({}, "ab"), ({"most_pages": 3}, "abc"), ({"only_page_ids": ["c", "b", "a"]}, "abc")):
        ours, theirs = await both(definition, function, listed, folder="/", **wanted)
        assert theirs == ours
        assert theirs["result"] == [{"page_id": page} for page in pages]
    page = export_tool(definition, "skill", entry, holds_secret=lambda _: False).files["SKILL.md"]
    assert "`only_page_ids` (the first, so many as the parameter `most_pages` says, if that is not given)" in page


def test_an_export_with_every_reader_is_in_good_order(tmp_path: Path) -> None:
    """A formatter and a linter have nothing to say, and nothing outside the standard library is imported."""
    text = python_module(showing(_EVERY_READER), writes=lambda _: False)
    (tmp_path / "exported.py").write_text(text)
    for command in (["format", "--check"], ["check", "--select", "E,F,I,W,B,UP"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length=120", "--target-version=py311"]
        done = subprocess.run([*ruff, str(tmp_path)], capture_output=True, check=False)
        assert done.returncode == 0, done.stdout.decode()
    imported = {
        alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names
    }
    assert imported <= sys.stdlib_module_names


def test_a_skill_says_how_to_read_by_hand() -> None:
    """Where code cannot run, the page says in words what is taken out of which text."""
    files = export_tool(files_tool(), "skill", entry, holds_secret=lambda _: False).files
    page = files["SKILL.md"]
    assert (
        '2. Call `read_file` for each element of `text` of each of the elements whose `tag` is `"FILE"` in the answer '
        "of step 1, read as lines of a tag and a text (50 at most) with:"
    ) in page
    assert '- `path`: the parameter `folder` followed by `"/"` followed by the element' in page
    assert "def read_tagged" in files["scripts/composite.py"]
