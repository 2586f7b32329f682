"""States what knowledge needs where it thinks: a process that is started in a transaction, and a language model.

Compression and reflection are processes that anybody can replace. Which version runs, and how it is compiled, is told
by `ThinkingProcesses`; the run is started with the rows that ask for it and settled with the rows that come of it.
`LanguageModel` is the configured model; without one its `name` is None and rules take its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from twinraven.flow import FlowDefinition

CountTokens = Callable[[str], int]
"""How many tokens a text has."""

_CHARACTERS_A_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has, where no tokenizer is at hand."""
    return -(-len(text) // _CHARACTERS_A_TOKEN)


@dataclass(frozen=True, slots=True)
class PreparedProcess:
    """A process in the version in force, ready to run."""

    process_id: str
    version: int
    flow: FlowDefinition

    def inputs(self, offered: Mapping[str, Any]) -> dict[str, Any]:
        """Return the inputs that the process takes of those it is offered."""
        asked = cast("Mapping[str, Any]", self.flow.parameters.get("properties", {}))
        return {name: value for name, value in offered.items() if name in asked}


def member_of(output: Any, name: str) -> Any:
    """Return a member of what a process ended with, or of one of its variables where it has no output template."""
    if not isinstance(output, dict):
        return None
    found = cast("dict[str, Any]", output)
    if name in found:
        return found[name]
    inner = (cast("dict[str, Any]", each) for each in found.values() if isinstance(each, dict))
    return next((each[name] for each in inner if name in each), None)


class ThinkingProcesses(Protocol):
    """The processes that compress and reflect."""

    async def prepare(self, tenant_id: str, process_id: str) -> PreparedProcess:
        """Return the version in force; a built-in one is saved where the tenant has none of that id."""
        ...


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A model's reply, as JSON that fits the schema it was given."""

    value: Any
    model: str


class LanguageModel(Protocol):
    """The configured model."""

    @property
    def name(self) -> str | None:
        """None where no model is configured."""
        ...

    async def ask(self, tenant_id: str, text: str, *, system: str, schema: Mapping[str, Any]) -> ModelReply:
        """Return an answer that fits the schema; raises the call's error where there is none."""
        ...


class NoModel:
    """Stands where no model is configured."""

    name = None

    async def ask(self, tenant_id: str, text: str, *, system: str, schema: Mapping[str, Any]) -> ModelReply:
        del tenant_id, text, system, schema
        raise AssertionError("no model is configured")
