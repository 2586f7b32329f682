"""Files that define a catalogue: what is read, and what is refused before anything is done with it."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from twinraven.catalog import CatalogFile, read_file
from twinraven.catalog.documents import KEEP, Document, kept
from twinraven.catalog.tool_model import checked_key
from twinraven.foundation.errors import InvalidDefinition

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
_BODY = st.dictionaries(st.sampled_from(["name", "key", "shared", "connection_params"]), _JSON)


def test_both_spellings_of_names_are_one() -> None:
    """A file may be written in camel case; inside definitions nothing is renamed."""
    file = read_file("toolTemplates: [{inputSchema: {camelCase: 1}}]\nservices:\n  - {connection_schema: {}}")
    assert file == CatalogFile(
        tool_templates=({"input_schema": {"camelCase": 1}},), services=({"connection_schema": {}},)
    )


def test_json_is_yaml_too() -> None:
    """A file in JSON is read as it is."""
    assert read_file('{"services": [{"name": "shop"}]}').services == ({"name": "shop"},)


@pytest.mark.parametrize("text", ["", "# nothing\n", "services:\n", "services: []"])
def test_an_empty_file_defines_nothing(text: str) -> None:
    """It can be applied, and does nothing."""
    assert read_file(text) == CatalogFile()


@given(st.lists(_BODY, max_size=3), st.lists(_BODY, max_size=3))
@example([{"name": {"\x85": "\u2028 \u2029"}}], [])
def test_what_is_written_is_read(services: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
    """Writing a file and reading it gives the same definitions."""
    file = CatalogFile(services=tuple(services), tools=tuple(tools))
    assert read_file(file.dump()) == file


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- a", "file must be an object"),
        ("service: []", "service is not a field of a file; did you mean services?"),
        ("services: {}", "services must be a list"),
        ("services: [shop]", "services[0] must be an object"),
        ("services: [{name: a, name: b}]", "gives 'name' twice in one object (line 1)"),
        ("services: [{since: 2026-01-01}]", "services[0].since is a date; write it in quotes"),
        ("services: [{1: a}]", "services[0] has the key 1; write it in quotes"),
        ("services: [{a: !!python/object:os.system x}]", "the file is not YAML"),
        ("services: [", "the file is not YAML: line 1, column 12: expected the node content, but found '<stream end>'"),
        ("services: [{a: &a [*a]}]", "more than 100 levels"),
        ("services: " + "[" * 2000 + "]" * 2000, "levels"),
        ("x" * 2_000_001, "longer than"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(text: str, told: str) -> None:
    """The message says where and what to do."""
    with pytest.raises(InvalidDefinition) as refusal:
        read_file(text)
    assert told in refusal.value.message


def test_references_cannot_unfold_without_end() -> None:
    """A few lines that would be a billion values are refused before they are."""
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10))]
    with pytest.raises(InvalidDefinition, match="more than 200000 values"):
        read_file("services:\n  - " + "\n    ".join(lines))


@pytest.mark.parametrize(
    "merge", ["<<: [*a, *a, *a, *a, *a, *a, *a, *a, *a, *a]", "<<: *a\n      more: *a"], ids=["lists", "both"]
)
def test_merges_cannot_unfold_without_end(merge: str) -> None:
    """A merge bomb is refused by the count of what it stands for, before any object of it is built."""
    lines = [
        "a0: &a0 {x: 1, y: 2}",
        *(f"a{n}: &a{n}\n      " + merge.replace("*a", f"*a{n - 1}") for n in range(1, 41)),
    ]
    before = process_time()
    with pytest.raises(InvalidDefinition, match=r"more than 200000 values .* \(line \d+\)"):
        read_file("services:\n  - " + "\n    ".join(lines))
    assert process_time() - before < 10, "merging takes minutes and gigabytes"


def test_merges_and_aliases_within_bounds_are_read() -> None:
    """A merge gives what it is for: shared fields, each replaced where it is given again."""
    file = read_file("services:\n  - &shop {name: shop, type: rest_api}\n  - {<<: *shop, name: other}")
    assert file.services == ({"name": "shop", "type": "rest_api"}, {"name": "other", "type": "rest_api"})


@pytest.mark.parametrize("key", ["get_order", "_x", "a.b-c", "A" * 128])
def test_keys_are_names_that_callers_can_carry(key: str) -> None:
    """Letters, digits, and three signs."""
    assert checked_key(key) == key


@pytest.mark.parametrize("key", ["", "1a", "a b", "a/b", "é", "a\n", "A" * 129, "a" * 32, "deadbeef" * 4])
def test_other_keys_are_refused(key: str) -> None:
    """Also those that would look like an id."""
    with pytest.raises(InvalidDefinition) as refusal:
        checked_key(key)
    assert refusal.value.details["field"] == "key"


def test_a_document_reads_what_is_there_and_names_what_is_not() -> None:
    """Each kind of field is checked for its kind."""
    document = Document(
        "thing", {"aText": "x", "aFlag": True, "n": 3, "o": {}}, known=("a_text", "a_flag", "n", "o", "z")
    )
    assert (document.text("a_text"), document.flag("a_flag", default=False), document.whole("n", most=3)) == (
        "x",
        True,
        3,
    )
    assert (document.optional_text("z"), document.optional_flag("z"), document.optional_mapping("z")) == (None,) * 3
    wrong: list[tuple[Any, str]] = [
        (lambda: document.text("n"), "n must be a text"),
        (lambda: document.text("z"), "z is missing"),
        (lambda: document.flag("n", default=False), "n must be true or false"),
        (lambda: document.whole("a_flag", most=9), "a_flag must be a whole number from 1 to 9"),
        (lambda: document.whole("n", most=2), "n must be a whole number from 1 to 2"),
        (lambda: document.mapping("a_text"), "a_text must be an object"),
        (lambda: Document("thing", {"aText": 1, "a_text": 2}, known=("a_text",)), "a_text is given twice"),
        (lambda: Document("thing", {"owner": 1}, known=(), fixed=("owner",)), "owner never changes"),
    ]
    for act, told in wrong:
        with pytest.raises(InvalidDefinition, match=told):
            act()


def test_null_and_nothing_are_two_things_in_a_change() -> None:
    """Null takes a value away; what is not named stays."""
    document = Document("thing", {"a": None}, known=("a", "b"))
    assert document.change_of("a", document.optional_text) is None
    assert document.change_of("b", document.optional_text) is KEEP
    assert (kept(None, "before"), kept(KEEP, "before")) == (None, "before")
