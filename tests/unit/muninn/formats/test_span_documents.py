"""Long OTLP documents are parsed in parts, and hold what they hold when they are parsed whole."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from bench.dense_spans import CONVENTIONS, dense_document
from twinraven.foundation.errors import InvalidInput
from twinraven.muninn.formats import span_documents
from twinraven.muninn.formats.otlp import OtlpParser, spans_in
from twinraven.muninn.formats.span_documents import parse_spans
from twinraven.muninn.formats.trace import LineError, parse_object
from twinraven.muninn.model import Observation

SIZE = 150_000


def _by_name(listed: Any) -> dict[str, Any]:
    if not isinstance(listed, list):
        return listed
    return {item["key"]: item["value"] for item in cast("list[dict[str, Any]]", listed)}


def _flat(document: dict[str, Any]) -> list[Any]:
    return [{**span, "attributes": _by_name(span.get("attributes"))} for span in spans_in(document)]


def _as_whole(line: bytes) -> list[Any]:
    return _flat(parse_object(line))


def _in_parts(line: bytes) -> list[Any]:
    return _flat(parse_spans(line, _by_name))


def _scopes(*lists: list[Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "one"}, "spans": spans}]} for spans in lists]}


def _spans(convention: str = "genai") -> list[dict[str, Any]]:
    return json.loads(dense_document(convention, SIZE))["resourceSpans"][0]["scopeSpans"][0]["spans"]


@pytest.fixture
def is_never_parsed_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test whose document is not parsed in parts."""

    def parse_little(line: bytes) -> dict[str, Any]:
        assert len(line) < SIZE, "the document was parsed whole"
        return parse_object(line)

    monkeypatch.setattr(span_documents, "parse_object", parse_little)


@pytest.mark.usefixtures("is_never_parsed_whole")
@pytest.mark.parametrize("convention", CONVENTIONS)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_a_long_document_in_parts_holds_what_it_holds_as_a_whole(convention: str, separators: tuple[str, str]) -> None:
    """Spans come in their order with all their members, whatever the white space."""
    line = json.dumps(json.loads(dense_document(convention, SIZE)), separators=separators).encode()
    found = _in_parts(line)
    assert found == _as_whole(line)
    assert len(found) > 100


@pytest.mark.usefixtures("is_never_parsed_whole")
def test_attributes_of_parts_are_flattened_while_they_are_parsed() -> None:
    """All spans but those of the last part have their attributes by name already."""
    spans = list(spans_in(parse_spans(dense_document("genai", SIZE), _by_name)))
    flat = [isinstance(span["attributes"], dict) for span in spans]
    assert flat == sorted(flat, reverse=True)
    assert flat.count(True) > len(flat) // 2


@pytest.mark.usefixtures("is_never_parsed_whole")
def test_several_lists_of_spans_are_cut_each_by_itself() -> None:
    """Lists of several resources and scopes keep their spans and their order, short and empty ones among them."""
    spans = _spans()
    half = len(spans) // 2
    document = _scopes(spans[:half], [], spans[half:-3], spans[-3:])
    document["resourceSpans"][0]["scopeSpans"].append({"spans": spans[:5]})
    line = json.dumps(document).encode()
    assert _in_parts(line) == _as_whole(line)


@pytest.mark.parametrize(
    "span",
    [
        pytest.param({"links": [{"traceId": "aa", "text": "x" * 60} for _ in range(2_000)]}, id="a long list of links"),
        pytest.param({"name": 'a "spans":[{"traceId":"1"},{"traceId":"2"}] in a text'}, id="a list in a text"),
        pytest.param({"name": 123456789012345678901234567890}, id="an integer beyond 64 bits"),
        pytest.param({"name": "spans cut off: 0"}, id="the mark itself"),
        pytest.param({'odd "spans"': [{"traceId": "1", "pad": "x" * 99} for _ in range(900)]}, id="a name like it"),
        pytest.param({"spans": [{"traceId": "1", "pad": "x" * 99} for _ in range(900)]}, id="spans in a span"),
        pytest.param({"attributes": "none"}, id="no attributes"),
    ],
)
@pytest.mark.parametrize("place", [0, 40, -1])
def test_what_looks_like_a_place_to_cut_is_none(span: dict[str, Any], place: int) -> None:
    """Whatever a span holds, the document is read as if it had been parsed whole."""
    spans = _spans()
    spans[place] |= span
    line = json.dumps(_scopes(spans), separators=(",", ":")).encode()
    assert _in_parts(line) == _as_whole(line)


@pytest.mark.parametrize("spans", [["spans cut off: 0"], [], [None, 5]])
def test_a_list_that_begins_with_no_span_is_left_as_it_is(spans: list[Any]) -> None:
    """A list that could be taken for a mark beside others that are cut is no mark."""
    line = json.dumps(_scopes(spans, _spans()), separators=(",", ":")).encode()
    assert list(spans_in(parse_spans(line, _by_name)))[: len(spans)] == spans


@pytest.mark.parametrize("share", [0.02, 0.5, 0.99])
def test_a_broken_document_is_refused_whole(share: float) -> None:
    """No span of a line that is no JSON is taken, wherever it is broken."""
    line = dense_document("genai", SIZE)
    broken = int(len(line) * share)
    for damaged in (line[:broken], line[:broken] + b'"' + line[broken:]):
        with pytest.raises(InvalidInput, match="the line is not JSON"):
            parse_spans(damaged, _by_name)


def test_an_odd_span_in_a_long_document_is_refused_alone() -> None:
    """Attributes that cannot be read are a complaint with the span's own id, and the other calls are taken."""
    spans = _spans()
    spans[10]["attributes"] = [{"key": "a", "value": "no object"}]
    heard = [*(parser := OtlpParser("default")).feed(json.dumps(_scopes(spans)).encode(), 3), *parser.finish()]
    complaints = [each for each in heard if isinstance(each, LineError)]
    assert [each.line for each in complaints] == [3]
    assert spans[10]["spanId"] in complaints[0].reason
    calls = sum(span["name"].startswith("call ") for span in spans) - spans[10]["name"].startswith("call ")
    assert sum(isinstance(each, Observation) for each in heard) == calls
