"""Parses foreign trace formats, one file each, and detects a format by its content.

A format is read by a `TraceParser`, which is fed lines and says which calls it understood. To add one, write its file,
with a function `recognises` that looks at one JSON value, and add a line to `FORMATS`. The order is that of asking: the
formats that are told by a mark of their own come before those that are told by their general shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from itertools import chain, islice
from typing import IO, Any, NamedTuple, cast

from twinraven.foundation.canonical import parse_json
from twinraven.foundation.errors import InvalidInput, TwinRavenError
from twinraven.foundation.schema_inference import json_type
from twinraven.muninn.formats.lines import Line, numbered, whole_documents
from twinraven.muninn.formats.packed import inner_documents, unpacked
from twinraven.muninn.formats.trace import ForeignCall, Heard, LineError, TraceCounts, TraceParser

__all__ = [
    "AUTO",
    "FORMATS",
    "ForeignCall",
    "Format",
    "Heard",
    "LineError",
    "TraceCounts",
    "TraceParser",
    "TraceReader",
]

AUTO = "auto"
_LOOKED_AT = 50
_PLAIN_CALL = '{"session_id": "s1", "seq": 1, "tool": "get_order", "params": {"id": 7}, "output": {}}'


class Format(NamedTuple):
    """A way to write calls down."""

    module: str
    parser: str


FORMATS = {
    "otlp": Format("otlp", "OtlpParser"),
    "langfuse": Format("langfuse", "LangfuseParser"),
    "langsmith": Format("langsmith", "LangSmithParser"),
    "mlflow": Format("mlflow", "MlflowParser"),
    "events": Format("own_events", "OwnEventsParser"),
    "calls": Format("calls", "CallsParser"),
    "openhands": Format("openhands", "OpenHandsParser"),
    "swe-agent": Format("swe_agent", "SweAgentParser"),
    "claude-code": Format("claude_code", "ClaudeCodeParser"),
    "openai": Format("chat", "ChatParser"),
    "anthropic": Format("chat", "ChatParser"),
    "responses": Format("chat", "ChatParser"),
    "gemini": Format("chat", "ChatParser"),
    "langchain": Format("chat", "ChatParser"),
    "pydantic-ai": Format("chat", "ChatParser"),
    "chat": Format("chat", "ChatParser"),
}


class TraceReader:
    """Reads one file of traces, whatever its format, as calls and complaints."""

    def __init__(self, lines: Iterable[bytes] | IO[bytes], tenant_id: str, *, format: str = AUTO) -> None:
        documents = whole_documents(numbered(lines))
        self.format = format
        if format == AUTO:
            self.format, documents = _guess(documents)
        if self.format not in FORMATS:
            known = ", ".join((*FORMATS, AUTO))
            raise InvalidInput(f"there is no format {format!r}; choose from {known}", field="format")
        chosen = FORMATS[self.format]
        module = _module(chosen)
        make = cast("Callable[[str], TraceParser]", getattr(module, chosen.parser))
        self._parser = make(tenant_id)
        self._documents = unpacked(documents, module.recognises)
        self.line = 0
        """The line that was read last."""

    @property
    def keeps_ids(self) -> bool:
        return self._parser.keeps_ids

    @property
    def seen(self) -> TraceCounts:
        return self._parser.seen

    def __iter__(self) -> Iterator[Heard]:
        for number, text in self._documents:
            self.line = number
            yield from self._heard(self._parser.feed, text, number)
        yield from self._heard(self._parser.finish)

    def _heard(self, hear: Callable[..., Iterable[Heard]], *line: Any) -> Iterator[Heard]:
        try:
            yield from hear(*line)
        except TwinRavenError as error:
            yield LineError(self.line, error.message)


def _guess(documents: Iterator[Line]) -> tuple[str, Iterator[Line]]:
    """Return the format of the first line that shows one; None for a file without any."""
    head: list[Line] = []
    for document in islice(documents, _LOOKED_AT):
        head.append(document)
        found = _format_of(document[1])
        if found is not None:
            return found, chain(head, documents)
    raise _unknown(head)


def _unknown(head: list[Line]) -> InvalidInput:
    if not head:
        return InvalidInput("the file is empty: there is no line in it", field="file")
    values = [_parsed(text) for _, text in head]
    known = ", ".join(FORMATS)
    fix = f"state the format with --format, or write one of those known: {known}"
    if values[0] is None:
        # No more than that is shown: it may be anything, also a secret.
        shown = head[0][1].lstrip()[:1].decode("utf-8", "replace")
        seen = f"the first line is not JSON, it begins with {shown!r}"
    else:
        seen = f"the first line {_described(values[0][0])}"
    if not any(values):
        # No format reads that, whatever is stated.
        fix = f"export it as JSON of a format known ({known}), or write one call a line: {_PLAIN_CALL}"
    return InvalidInput(f"no known format of traces was recognised; {seen}", field="file", fix=fix)


def _parsed(text: bytes) -> tuple[Any] | None:
    try:
        return (parse_json(text),)
    except TwinRavenError:
        return None


def _described(value: Any) -> str:
    """Return what a JSON value holds, by the names of its fields alone."""
    shown: Any = next(iter(cast("list[Any]", value)), None) if isinstance(value, list) else value
    if value in ([], {}):
        return f"is an empty {'list' if isinstance(value, list) else 'object'}"
    if not isinstance(shown, dict):
        return f"holds {json_type(shown)} where an object is expected"
    names = [name[:40] for name in cast("dict[str, Any]", shown) if name.isprintable()]
    return f"has: {', '.join(names[:12]) or 'no names that can be shown'}"


def _format_of(line: bytes) -> str | None:
    try:
        found = parse_json(line)
    except TwinRavenError:
        return None
    for value in (found, *islice(inner_documents(found), _LOOKED_AT)):
        for name, each in _distinct():
            module = _module(each)
            if module.recognises(value):
                # Dialects of chats have names of their own and one parser.
                return module.dialect_in(value) if each.module == "chat" else name
    return None


def _distinct() -> Iterator[tuple[str, Format]]:
    """Yield one name of each module, in the order of asking."""
    met: set[str] = set()
    for name, each in FORMATS.items():
        if each.module not in met:
            met.add(each.module)
            yield name, each


def _module(format: Format) -> Any:
    return import_module(f"twinraven.muninn.formats.{format.module}")
