"""Tells a changed tool definition that means the same from one that does not: words and hints, or schemas.

New words reach no model before somebody accepted them: as long as the schemas are the same, the tool can be offered
with the words that were accepted. That keeps a server's upgrade from taking its tools away, and an injected description
from being read. A hint that says more harm than before, a changed schema, or anything else changes the tool itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from twinraven.connectors.mcp.model import Definition
from twinraven.foundation.canonical import canonical_json

_WORDS: Final = ("title", "description", "icons", "annotations", "_meta")
_SCHEMAS: Final = ("inputSchema", "outputSchema")
_SCHEMA_WORDS: Final = frozenset({"title", "description", "$comment", "examples"})
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LITERAL: Final = frozenset({"const", "enum", "default", "required"})


def is_rewording(before: Definition, after: Definition) -> bool:
    """Return whether only words and harmless hints differ between two definitions of one tool."""
    if _says_more_harm(_hints(before), _hints(after)):
        return False
    return canonical_json(_meaning(before)) == canonical_json(_meaning(after))


def _meaning(definition: Definition) -> Definition:
    kept = {name: value for name, value in definition.items() if name not in _WORDS}
    return {name: _wordless(value) if name in _SCHEMAS else value for name, value in kept.items()}


def _wordless(schema: Any) -> Any:
    """Return a schema without what is only said to readers; a property that is called `description` stays."""
    if isinstance(schema, list):
        return [_wordless(one) for one in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for name, value in cast("dict[str, Any]", schema).items():
        if name in _SCHEMA_WORDS:
            continue
        if name in _NAMED_SCHEMAS and isinstance(value, dict):
            kept[name] = {key: _wordless(one) for key, one in cast("dict[str, Any]", value).items()}
        else:
            kept[name] = value if name in _LITERAL else _wordless(value)
    return kept


def _hints(definition: Definition) -> Mapping[str, Any]:
    annotations = definition.get("annotations")
    return cast("Mapping[str, Any]", annotations) if isinstance(annotations, dict) else {}


def _says_more_harm(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    stopped_reading = before.get("readOnlyHint") is True and after.get("readOnlyHint") is not True
    became_destructive = after.get("destructiveHint") is True and before.get("destructiveHint") is not True
    became_open = before.get("openWorldHint") is False and after.get("openWorldHint") is not False
    return stopped_reading or became_destructive or became_open
