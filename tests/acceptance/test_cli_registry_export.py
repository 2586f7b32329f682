"""A learned tool leaves the home: written from the command line, loaded elsewhere, and of the same use there."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell
from tests.acceptance.test_cli_registry import first, learned_home, shell

__all__ = ["learned_home", "shell"]


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # as an import does; dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


def test_the_exported_function_answers_as_the_tool_does(shell: Shell) -> None:
    """The function, given the same tools, gives what the registered tool gives."""
    tool_id = first(shell)
    shell.succeed("approve", tool_id, "--promote")
    shell.succeed("registry", "export", tool_id, "--as", "python", "--to", ".")
    module = load(next(path for path in shell.folder.glob("*.py") if path.stem != "billing_tools"))
    tools = runpy.run_path(str(shell.folder / "billing_tools.py"))
    definition = shell.succeed("registry", "show", tool_id, "--version", "1").json
    required = definition["parameters"]["required"]
    given = dict.fromkeys(required, "ada@example.org")

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return tools[name](**arguments)

    answer = asyncio.run(getattr(module, module.__name__)(call, **given))
    called = shell.json("call", tool_id, "--params", json.dumps(given))
    assert answer == called


def test_a_skill_is_written_whole_and_replaced_only_by_force(shell: Shell) -> None:
    """A second export is refused unless forced, and a folder that is no skill is never replaced."""
    tool_id = first(shell)
    done = shell.json("registry", "export", tool_id, "--as", "skill", "--to", ".")
    folder = shell.folder / done["path"]
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == sorted(
        done["files"]
    )
    assert done["notes"]
    again = shell.run("registry", "export", tool_id, "--as", "skill", "--to", ".")
    assert again.code == 2
    assert "--force" in again.err
    shell.succeed("registry", "export", tool_id, "--as", "skill", "--to", ".", "--force")
    (folder / "SKILL.md").unlink()
    assert shell.run("registry", "export", tool_id, "--as", "skill", "--to", ".", "--force").code == 2
    assert not list(shell.folder.glob(".*" + folder.name + "*"))


def test_what_was_learned_stands_first_and_is_short(shell: Shell) -> None:
    """The function and its definition come before the runner, in as many lines as a person reads."""
    text = shell.succeed("registry", "export", first(shell), "--as", "python").text
    own, _, runner = text.partition("\nWRITES: ")
    assert f"async def {first(shell)}(" in own
    assert "DEFINITION: JsonObject = {" in own
    assert len(own.splitlines()) <= 125
    assert "class Schedule" in runner


def test_a_retired_tool_can_still_be_taken_along(shell: Shell) -> None:
    """Retired is out of service, not lost: it is exported, and a note says what it is."""
    tool_id = first(shell)
    shell.succeed("approve", tool_id, "--promote")
    shell.succeed("retire", tool_id, "--note", "enough", "--yes")
    done = shell.succeed("registry", "export", tool_id, "--as", "python")
    assert f"async def {tool_id}(" in done.text
    assert "version 1 is retired, not in service" in done.err


def test_a_secret_stored_later_is_not_exported(shell: Shell) -> None:
    """A definition that holds what became a secret after it was registered stays, and nothing is written."""
    tool_id = first(shell)
    shell.succeed("secrets", "set", "odd", "--type", "password", stdin=b"customer.id")
    for form in ("python", "skill"):
        refused = shell.run("registry", "export", tool_id, "--as", form, "--to", ".")
        assert refused.code == 2
        assert "holds a secret of the vault" in refused.err
    assert not list(shell.folder.glob("search*"))


@pytest.mark.parametrize("force", [False, True])
def test_a_swap_that_died_is_put_right(shell: Shell, force: bool) -> None:
    """A skill that an export moved aside before it was killed is back after the next export of it."""
    tool_id = first(shell)
    folder = shell.folder / shell.json("registry", "export", tool_id, "--as", "skill")["path"]
    page = (folder / "SKILL.md").read_text()
    (folder / "SKILL.md").write_text("older")
    aside = folder.with_name(f".{folder.name}.exporting")
    (aside / "new").mkdir(parents=True)
    (aside / "new" / "SKILL.md").write_text("half")
    folder.rename(aside / "old")
    again = shell.run("registry", "export", tool_id, "--as", "skill", *(["--force"] if force else []))
    assert again.code == (0 if force else 2)
    assert (folder / "SKILL.md").read_text() == (page if force else "older")
    assert not aside.exists()


@pytest.mark.parametrize("form", ["mcp", "openai"])
def test_definitions_go_to_standard_output(shell: Shell, form: str) -> None:
    """Without a place to go to, an export is printed and nothing else is."""
    body = shell.succeed("registry", "export", first(shell), "--as", form).json
    assert (body if form == "mcp" else body["function"])["name"] == first(shell)


def test_what_is_not_there_is_bad_input(shell: Shell) -> None:
    """Unknown tools, versions, forms and places end with 2 and a reason."""
    tool_id = first(shell)
    assert shell.run("registry", "export", "nothing_like_it", "--as", "mcp").code == 2
    assert "no version 9" in shell.run("registry", "export", tool_id, "--as", "mcp", "--version", "9").err
    assert shell.run("registry", "export", tool_id, "--as", "cobol").code == 2
    assert "cannot write" in shell.run("registry", "export", tool_id, "--as", "mcp", "--to", "no/such/place").err
