"""Looks up effects and schemas of recorded tools: in the catalogue, else guessed from their names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from twinraven.catalog import Effect, ToolEntry, infer_effect
from twinraven.foundation.canonical import canonical_json


class ToolFacts:
    """Effects and schemas of tools; traces from a file know nothing but names."""

    def __init__(self, entries: Iterable[ToolEntry] = ()) -> None:
        self._entries = {entry.tool_id: entry for entry in entries}

    def entry(self, tool_id: str) -> ToolEntry | None:
        return self._entries.get(tool_id)

    def effect(self, tool_id: str) -> Effect:
        entry = self._entries.get(tool_id)
        return infer_effect(tool_id) if entry is None else entry.effect

    def writes(self, tool_id: str) -> bool:
        """Return whether a call may change something; an unknown one may."""
        return self.effect(tool_id) is not Effect.READ

    def inferred(self, tool_id: str) -> bool:
        """Return whether the effect is only a guess from the name."""
        entry = self._entries.get(tool_id)
        return entry is None or entry.effect_origin != "declared"

    def undeclared_write(self, tool_id: str) -> bool:
        """Return whether a tool counts as a write only because its effect is not declared."""
        return self.writes(tool_id) and self.inferred(tool_id)

    def declared_values(self, tool_id: str, argument: str) -> frozenset[str]:
        """Return the values that a tool's own schema names for an argument (default, choices), as canonical text."""
        entry = self._entries.get(tool_id)
        declared: Any = None if entry is None else entry.input_schema.get("properties", {}).get(argument)
        if not isinstance(declared, dict):
            return frozenset()
        schema = cast("dict[str, Any]", declared)
        named: list[Any] = [schema[name] for name in ("default", "const") if name in schema]
        choices = schema.get("enum")
        named += cast("list[Any]", choices) if isinstance(choices, list) else []
        return frozenset(canonical_json(value).decode() for value in named)
