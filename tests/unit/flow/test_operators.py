"""Mapping operators that look into values: reading text, paths, joining, and going through lists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.flow.fakes import define, step
from twinraven.flow import compile_flow
from twinraven.flow.mapping import compile_value
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidDefinition
from twinraven.foundation.text_readers import READERS

_LISTING = "[FILE] a.txt\n[DIR] src\n[FILE] b.txt"
_SCOPE: dict[str, Any] = {
    "parameters": {"folder": "/data/", "tag": "DIR", "none": None},
    "steps": [
        {"output": 'Found: {"items": [{"id": "x-1", "n": 1}, {"id": "x-2", "n": 2}]}'},
        {"output": {"items": [{"id": "x-1"}, {"name": "no id"}], "by": {"a": {"k": 1}, "b": {"k": 2}}}},
        {"output": _LISTING},
    ],
    "item": "outer",
}


@pytest.mark.parametrize(
    ("mapping", "value"),
    [
        ({"$read": {"of": "$.steps[0].output", "as": "json", "at": "$.items[1].id"}}, "x-2"),
        ({"$read": {"of": "$.steps[1].output", "as": "json", "at": "$.items[0].id"}}, "x-1"),
        ({"$read": {"of": "$.steps[1].output", "as": "lines"}}, None),
        ({"$read": {"of": "$.steps[0].output", "as": "repr", "at": "$.items[0].n"}}, 1),
        ({"$read": {"of": "a b", "as": "json"}}, None),
        ({"$read": {"of": "a\nb", "as": "lines", "at": "$"}}, ["a", "b"]),
        ({"$read": {"of": "a\nb", "as": "lines", "at": "$[1]"}}, "b"),
        ({"$read": {"of": '"text"', "as": "json", "at": "$.x"}}, None),
        ({"$read": {"of": "$.parameters.none", "as": "json", "at": "$.x"}}, None),
        ({"$at": {"of": {"a": ["$.item"]}, "path": "$.a[0]"}}, "outer"),
        ({"$at": {"of": "$.steps[1].output", "path": "$"}}, _SCOPE["steps"][1]["output"]),
        ({"$at": {"of": "text", "path": "$.a"}}, None),
        ({"$join": ["$.parameters.folder", "/", "a.txt"]}, "/data/a.txt"),
        ({"$join": ["$.parameters.folder", "/a.txt"]}, "/data/a.txt"),
        ({"$join": ["a", "/", "", "/b"]}, "a/b"),
        ({"$join": ["n", 7, 1.0, True]}, "n71true"),
        ({"$join": ["a", "$.parameters.none"]}, None),
        ({"$join": ["a" * 5]}, "aaaaa"),
        ({"$map": {"over": "$.steps[1].output.items", "to": "$.item.id"}}, ["x-1"]),
        ({"$map": {"over": "$.steps[1].output.items"}}, _SCOPE["steps"][1]["output"]["items"]),
        ({"$map": {"over": "$.steps[1].output"}}, None),
        (
            {"$map": {"over": {"$read": {"of": _LISTING, "as": "tagged"}}, "to": {"$join": ["/d/", "$.item.text"]}}},
            ["/d/a.txt", "/d/src", "/d/b.txt"],
        ),
        ({"$map": {"over": ["a-1"], "to": {"$part": {"of": "$.item", "separator": "-"}}}}, ["a"]),
        ({"$map": {"over": [["a: 1"], ["a: 2"]], "to": {"$map": {"over": "$.item", "to": {"$join": ["$.item", "!"]}}}}},
         [["a: 1!"], ["a: 2!"]]),
        ({"$map": {"over": ["a: 1"], "to": {"$read": {"of": "$.item", "as": "fields", "at": "$.a"}}}}, ["1"]),
        (
            {"$where": {"of": {"$read": {"of": "$.steps[2].output", "as": "tagged"}}, "at": "$.tag", "equals": "FILE"}},
            [{"tag": "FILE", "text": "a.txt"}, {"tag": "FILE", "text": "b.txt"}],
        ),
        (
            {
                "$where": {
                    "of": {"$read": {"of": "$.steps[2].output", "as": "tagged"}},
                    "at": "$.tag",
                    "equals": "$.parameters.tag",
                    "first": True,
                }
            },
            {"tag": "DIR", "text": "src"},
        ),
        ({"$where": {"of": "$.steps[1].output.by", "at": "$.k", "equals": 2.0}}, [{"k": 2}]),
        ({"$where": {"of": "$.steps[1].output.by", "equals": "b", "first": True}}, {"k": 2}),
        ({"$where": {"of": ["a", "b"], "equals": "b"}}, ["b"]),
        ({"$where": {"of": ["a", None], "equals": "$.parameters.none"}}, []),
        ({"$where": {"of": ["a"], "equals": "b", "first": True}}, None),
        ({"$where": {"of": "a", "equals": "a"}}, None),
        ({"$where": {"of": "$.steps[1].output.by", "at": "$.k", "among": [2.0, 9]}}, [{"k": 2}]),
        ({"$where": {"of": ["a", "b", "c"], "among": ["c", "a", "x"]}}, ["a", "c"]),
        ({"$where": {"of": ["a", "A", "b"], "among": ["A", "B"]}}, ["A", "b"]),
        ({"$where": {"of": ["a", None], "among": [None, "a"]}}, ["a"]),
        ({"$where": {"of": ["a", "b"], "among": "$.parameters.none"}}, ["a", "b"]),
        ({"$where": {"of": ["a", "b"], "among": "a"}}, []),
        ({"$where": {"of": "a", "among": ["a"]}}, None),
        ({"$where": {"of": ["a", "b", "c"], "among": "$.parameters.none", "most": 2}}, ["a", "b"]),
        ({"$where": {"of": ["a", "b", "c"], "among": ["c", "b", "a"], "most": 2}}, ["a", "b", "c"]),
        ({"$where": {"of": ["a", "b"], "among": "$.parameters.none", "most": "$.parameters.none"}}, ["a", "b"]),
        ({"$where": {"of": ["a", "b"], "among": "$.parameters.none", "most": -1}}, ["a", "b"]),
        ({"$where": {"of": ["a", "b"], "among": "$.parameters.none", "most": True}}, ["a", "b"]),
        ({"$where": {"of": ["a", "b"], "among": "$.parameters.none", "most": "1"}}, ["a", "b"]),
    ],
)  # fmt: skip
def test_an_operator_yields(mapping: Any, value: Any) -> None:
    """Each operator gives the value it stands for, and null where it does not fit."""
    assert compile_value(mapping, "here").resolve(_SCOPE) == value


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        ({"$read": {"of": "x", "as": "xml"}}, r"\$read\.as: 'xml' is not a reader; use one of json, repr"),
        ({"$read": {"of": "x"}}, r"\$read\.as: is missing"),
        (
            {"$read": {"of": "x", "as": "json", "at": "items"}},
            r"\$read\.at: 'items' is not a path; it must begin with \$",
        ),
        ({"$read": {"of": "x", "as": "json", "at": "$.a["}}, r"\$read\.at: reference needs an index"),
        ({"$read": {"of": "x", "as": "json", "from": "$"}}, r"\$read\.from: is not a field"),
        ({"$at": {"of": "x"}}, r"\$at\.path: is missing"),
        ({"$join": "x"}, r"\$join: must be a list"),
        ({"$join": []}, r"\$join: must be a list"),
        ({"$map": {"to": "x"}}, r"\$map\.over: is missing"),
        ({"$where": {"of": [], "at": "$.x"}}, r"\$where\.equals: is missing"),
        ({"$where": {"of": [], "equals": 1, "first": "yes"}}, r"\$where\.first: must be true or false"),
        ({"$where": {"of": [], "among": [1], "equals": 1}}, r"\$where\.equals: is not a field"),
        (
            {"$map": {"over": ["a"], "to": {"$where": {"of": "$.item", "among": "$.parameters.x"}}}},
            r"\$where\.among: inside a \$map it must come from \$\.item",
        ),
        (
            {"$map": {"over": ["a"], "to": {"$read": {"of": "$.steps[0].output", "as": "json"}}}},
            r"\$read\.of: inside a \$map it must come from \$\.item",
        ),
        (
            {"$map": {"over": ["a"], "to": {"$map": {"over": "$.parameters.x"}}}},
            r"\$map\.over: inside a \$map it must come from \$\.item",
        ),
    ],
)
def test_a_malformed_operator_names_its_place(mapping: Any, problem: str) -> None:
    """What is missing, misspelt or too much work is refused with the field and the fix."""
    with pytest.raises(InvalidDefinition, match=problem):
        compile_value(mapping, "steps[0].input_mapping.x")


def test_a_mapped_element_is_no_reference_of_the_whole() -> None:
    """`$.item` inside `to` belongs to the `$map`, while the same words outside still ask for a for_each step."""
    mapped = compile_value({"$map": {"over": "$.item", "to": ["$.item", "$.parameters.q"]}}, "here")
    assert [reference.text for reference in mapped.references] == ["$.item", "$.parameters.q"]


def test_what_an_operator_reads_is_a_need_of_the_step() -> None:
    """A plan waits for the steps whose text is read, in inputs, wiring and output, and refuses one that comes later."""
    first = {"$read": {"of": "$.steps[0].output", "as": "json"}}
    listed = {"$map": {"over": first, "to": {"id": "$.item.id", "q": "$.parameters.q"}}}
    plan = compile_flow(
        define(
            step("a", {}),
            step("b", {"ids": listed}),
            step("c", {"x": "$.item"}, for_each="$.internal_wiring.0.list"),
            internal_wiring={"0": {"list": listed}},
            output={"all": listed},
        )
    )
    assert [planned.needs for planned in plan.steps] == [frozenset(), {0}, {0}]
    with pytest.raises(InvalidDefinition, match="uses a step that has not run by then"):
        compile_flow(define(step("a", {"x": first})))
    with pytest.raises(InvalidDefinition, match="exists only inside a for_each step"):
        compile_flow(define(step("a", {"x": {"$map": {"over": "$.item"}}})))


def test_lists_and_texts_have_a_bound() -> None:
    """A list of more than a thousand elements is not mapped, and a text that grows too long is null."""
    assert compile_value({"$map": {"over": "$.many"}}, "here").resolve({"many": [1] * 1_000}) == [1] * 1_000
    assert compile_value({"$map": {"over": "$.many"}}, "here").resolve({"many": [1] * 1_001}) is None
    assert compile_value({"$join": ["$.long", "$.long"]}, "here").resolve({"long": "x" * 200_000}) is None


_LEAVES = st.sampled_from(
    [None, True, 0, 2.5, "", "a, b", "k: v\nl: w", _LISTING, '{"a": [1, {"b": null}]}', "$.parameters.tag", "$.item",
     "$.steps[0].output", "$.steps[1].output.items", "$.steps[1].output.by", "$.steps[2].output"]
)  # fmt: skip
_PATHS = st.sampled_from(["$", "$[0]", "$.a", "$.items[0].id", "$.tag", "$['a b'][1]"])


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    reading = {"of": inner, "as": st.sampled_from([*READERS]), "at": _PATHS}
    choosing = {"of": inner, "at": _PATHS, "equals": inner, "first": st.booleans()}
    operators: dict[str, st.SearchStrategy[Any]] = {
        "$read": st.fixed_dictionaries(reading),
        "$at": st.fixed_dictionaries({"of": inner, "path": _PATHS}),
        "$join": st.lists(inner, min_size=1, max_size=3),
        "$map": st.fixed_dictionaries({"over": inner, "to": inner}),
        "$where": st.one_of(
            st.fixed_dictionaries(choosing),
            st.fixed_dictionaries({"of": inner, "at": _PATHS, "among": inner}, optional={"most": inner}),
        ),
        "$string": inner,
        "$part": st.fixed_dictionaries({"of": inner, "separator": st.just(" ")}),
    }
    written = [st.fixed_dictionaries({name: body}) for name, body in operators.items()]
    plain = [st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)]
    return st.one_of(*written, *plain)


@given(st.recursive(_LEAVES, _around, max_leaves=6))
def test_any_mapping_is_total(mapping: Any) -> None:
    """A mapping that compiles gives JSON for any scope, the same each time, and one that does not is refused."""
    try:
        mapped = compile_value(mapping, "here")
    except InvalidDefinition:
        return
    value = mapped.resolve(_SCOPE)
    assert canonical_json(value) == canonical_json(mapped.resolve(_SCOPE))
    mapped.resolve({"parameters": {}, "steps": []})
