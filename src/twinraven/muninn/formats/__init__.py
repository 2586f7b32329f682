"""Formats of foreign traces, one file each, and how to tell them apart.

A format is read by a `TraceParser`, which is fed lines and says which calls it understood. To add one, write its file
and add a line to `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice
from typing import Any, NamedTuple, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.muninn.formats.trace import LONGEST_DOCUMENT, ForeignCall, Heard, LineError, TraceParser, whole_documents

__all__ = [
    "AUTO",
    "FORMATS",
    "LONGEST_DOCUMENT",
    "ForeignCall",
    "Format",
    "Heard",
    "LineError",
    "TraceParser",
    "open_trace",
]

AUTO = "auto"
_LOOKED_AT = 50


class Format(NamedTuple):
    """A way to write calls down."""

    module: str
    parser: str
    has_documents: bool
    """Whether a file may also be one JSON document over many lines."""


FORMATS = {
    "calls": Format("calls", "CallsParser", has_documents=False),
    "openai": Format("openai_chat", "OpenAIChatParser", has_documents=True),
    "otlp": Format("otlp", "OtlpParser", has_documents=True),
    "claude-code": Format("claude_code", "ClaudeCodeParser", has_documents=False),
}


def open_trace(lines: Iterable[bytes], name: str, tenant_id: str) -> tuple[Iterator[bytes], TraceParser]:
    """The lines to feed and the parser for them; `auto` finds the format out."""
    rest = iter(lines)
    if name == AUTO:
        name, rest = _guess(rest)
    if name not in FORMATS:
        known = ", ".join((*FORMATS, AUTO))
        raise InvalidInput(f"there is no format {name!r}; choose from {known}", field="format")
    chosen = FORMATS[name]
    module = import_module(f"twinraven.muninn.formats.{chosen.module}")
    parser = cast("Callable[[str], TraceParser]", getattr(module, chosen.parser))
    return whole_documents(rest) if chosen.has_documents else rest, parser(tenant_id)


def _guess(lines: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """The format of the first line that shows one; a file without any is left to `calls`, which names every line."""
    documents = whole_documents(lines)
    head = list(islice(documents, _LOOKED_AT))
    found = next(filter(None, map(_format_of, head)), "calls")
    return found, chain(head, documents)


def _format_of(line: bytes) -> str | None:
    try:
        found = parse_json(line)
    except TwinRavenError:
        return None
    if isinstance(found, list):
        return "openai" if found else None
    if not isinstance(found, dict):
        return None
    members = cast("dict[str, Any]", found)
    if "resourceSpans" in members:
        return "otlp"
    if isinstance(members.get("messages"), list):
        return "openai"
    if "session_id" in members and "tool" in members:
        return "calls"
    return "claude-code" if "type" in members and ("sessionId" in members or "message" in members) else None
