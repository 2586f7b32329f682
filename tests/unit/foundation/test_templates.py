"""Text templates: what Handlebars makes of them, which variables they use, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twinraven.foundation.errors import InvalidExpression, InvalidInput, TwinRavenError
from twinraven.foundation.template_syntax import MAX_TEMPLATE_TAGS
from twinraven.foundation.templates import MAX_RENDER_STEPS, MAX_TEMPLATE_CHARS, Handlebars, parse_handlebars

# What Handlebars 4.7 itself makes of each template, without HTML escaping.
_RECORDED = json.loads((Path(__file__).parent / "handlebars.json").read_text("utf-8"))

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab{}\n ", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
_PATHS = st.sampled_from(
    ["a", "b.c", "[odd key]", "this.a", "../a", "@root.c", "@index", "@key", "this", "b.0", "item"]
)


def _written_block(kind: str, path: str, body: str, other: str) -> str:
    return f"{{{{#{kind} {path}}}}}{body}{'{{else}}' + other if other else ''}{{{{/{kind}}}}}"


def _block(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.builds(_written_block, st.sampled_from(["if", "unless", "each", "with"]), _PATHS, inner, inner)


_TEMPLATES = st.recursive(
    st.text("ab \n", max_size=3) | _PATHS.map(lambda path: f"{{{{{path}}}}}"),
    lambda inner: st.lists(inner, max_size=3).map("".join) | _block(inner),
    max_leaves=8,
)


@pytest.mark.parametrize(("text", "expected"), _RECORDED["cases"], ids=lambda part: repr(part)[:40])
def test_it_renders_as_handlebars_does(text: str, expected: str) -> None:
    """The same template and values give the same text as the original, white space included."""
    assert parse_handlebars(text).render(_RECORDED["values"]) == expected


def test_objects_and_lists_are_json() -> None:
    """Where Handlebars would print nothing useful, the value is printed as JSON."""
    shown = parse_handlebars("{{a}} {{b}}").render({"a": {"x": [1, None]}, "b": ["é", 2.0]})
    assert shown == '{"x":[1,null]} ["é",2]'


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("plain", ()),
        ("{{b}} {{a.x}} {{b.y}}", ("b", "a")),
        ("{{#if a}}{{b}}{{else if c}}{{d}}{{else}}{{e}}{{/if}}", ("a", "b", "c", "d", "e")),
        ("{{#each rows}}{{name}}{{this}}{{@index}}{{../outer}}{{@root.top}}{{/each}}", ("rows", "outer", "top")),
        ("{{#each rows}}{{else}}{{none}}{{/each}}", ("rows", "none")),
        ("{{#each rows as |row i|}}{{row.id}}{{i}}{{id}}{{#each row.tags}}{{row.x}}{{/each}}{{/each}}", ("rows",)),
        ("{{#with a}}{{b}}{{#with c}}{{../../d}}{{../e}}{{/with}}{{/with}}", ("a", "d")),
        ("\\{{not}} {{!nor}} {{[odd key]}} {{this.x}}", ("odd key", "x")),
    ],
)
def test_variables_are_known_without_values(text: str, variables: tuple[str, ...]) -> None:
    """The names that must be given are listed from the text alone, each once."""
    assert parse_handlebars(text).variables == variables


def test_paths_tell_how_deep_a_variable_is_looked_into() -> None:
    """Besides the names, every place in them that the template looks at is listed."""
    assert parse_handlebars("{{step.x}}{{#each step.rows}}{{id}}{{/each}}").paths == (("step", "x"), ("step", "rows"))


@given(_TEMPLATES, st.dictionaries(st.sampled_from(["a", "b", "c", "odd key", "item"]), _JSON))
def test_it_reads_no_variable_that_it_does_not_list(text: str, values: dict[str, Any]) -> None:
    """Taking away every variable that is not listed changes nothing."""
    try:
        template = parse_handlebars(text)
    except InvalidExpression:
        return
    listed = {name: value for name, value in values.items() if name in template.variables}
    assert template.render(values) == template.render(listed)


@given(st.text("{}#/~!&^@.[]| aeifchlswithunless\\\n", max_size=40), st.dictionaries(st.text("ab", max_size=2), _JSON))
def test_any_text_is_rendered_or_refused(text: str, values: dict[str, Any]) -> None:
    """Whatever stands in a template, the answer is a text or an error that names the line."""
    try:
        assert isinstance(parse_handlebars(text).render(values), str)
    except InvalidExpression as error:
        assert "(line " in error.message


@given(st.text(max_size=60).filter(lambda text: "{{" not in text))
def test_text_without_braces_is_itself(text: str) -> None:
    """Nothing but double braces means anything."""
    template = parse_handlebars(text)
    assert template.render({}) == text
    assert template.is_plain


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\n{{b", "no }} for its braces (line 2)"),
        ("{{{a}}", "no }}} for"),
        ("{{!-- a }}", "no --}} for"),
        ("{{}}", "nothing in them"),
        ("{{#if a}}", "no {{/if}} for its {{#if}}"),
        ("{{#if a}}{{/each}}", "{{/if}} is due"),
        ("{{/if}}", "ends nothing"),
        ("{{else}}", "outside every block"),
        ("{{#if a}}{{else}}{{else}}{{/if}}", "second {{else}}"),
        ("{{#if}}{{/if}}", "does not say of what"),
        ("{{#loop a}}{{/loop}}", "unknown block 'loop'"),
        ("{{#items}}{{/items}}", "unknown block 'items'"),
        ("{{#if a as |b|}}{{/if}}", "nothing to name"),
        ("{{upper name}}", "'upper name' in braces"),
        ("{{> header}}", "partial"),
        ('{{"text"}}', "only names and paths"),
        ("{{a.}}", "only names and paths"),
        ("{{../a}}", "further out"),
        ("{{#if a}}{{../b}}{{/if}}", "further out"),
        ("{{this}}", "name one"),
        ("{{@index}}", "outside every #each"),
        ("{{#each a}}{{@number}}{{/each}}", "unknown @number"),
        ("{{#if a}}" * 65 + "{{/if}}" * 65, "nested deeper than 64"),
        ("{{" + ".".join(["a"] * 65) + "}}", "more than 64 steps"),
        ("a" * (MAX_TEMPLATE_CHARS + 1), "longer than"),
    ],
)
def test_what_it_does_not_understand_is_refused_by_name(text: str, told: str) -> None:
    """An error says what stands there, in which line, and what could stand there instead."""
    with pytest.raises(InvalidExpression) as refusal:
        parse_handlebars(text)
    assert told in refusal.value.message


def test_values_are_never_read_as_templates() -> None:
    """Braces that arrive in a value are text."""
    assert parse_handlebars("{{a}}").render({"a": "{{b}}", "b": "secret"}) == "{{b}}"


def test_rendering_is_bounded() -> None:
    """Loops in loops end with an error before they take the machine's memory or time."""
    many = list(range(1000))
    loops = parse_handlebars("{{#each a}}{{#each ../a}}{{#each ../../a}}x{{/each}}{{/each}}{{/each}}")
    with pytest.raises(InvalidInput, match="steps"):
        loops.render({"a": many})
    with pytest.raises(InvalidInput, match="grows beyond"):
        parse_handlebars("{{#each a}}{{../b}}{{/each}}").render({"a": many, "b": "x" * 100_000})


def test_a_single_variable_keeps_its_type() -> None:
    """A template that is one variable resolves to the value; any other, to text."""
    values: dict[str, Any] = {"n": 3, "rows": [{"id": 1}]}
    assert parse_handlebars("{{n}}").resolve(values) == 3
    assert parse_handlebars("{{rows.0}}").resolve(values) == {"id": 1}
    assert parse_handlebars("{{missing}}").resolve(values) is None
    assert parse_handlebars("{{n}}!").resolve(values) == "3!"


def test_an_encoding_is_applied_to_values_alone() -> None:
    """What the template itself says is left as it is."""
    template = parse_handlebars("/a b/{{#each ids}}{{this}}/{{/each}}")
    assert template.render({"ids": ["x/y"]}, encode=lambda text: text.replace("/", "%2F")) == "/a b/x%2Fy/"


@pytest.mark.parametrize("text", ["{{a}}", "{{#each a}}{{b}}{{/each}}", "x" * 5000 + "{{a}}"])
def test_parsing_again_gives_an_equal_template(text: str) -> None:
    """Long templates, which are not kept, are parsed like short ones."""
    first, second = parse_handlebars(text), parse_handlebars(text)
    assert isinstance(first, Handlebars)
    assert first == second


def test_errors_are_ours() -> None:
    """Whoever handles TwinRaven's errors handles these."""
    with pytest.raises(TwinRavenError) as refusal:
        parse_handlebars("x\ny {{#if}}")
    assert refusal.value.code == "EXPRESSION_INVALID"
    assert refusal.value.details == {"line": 2, "position": 4}


@pytest.mark.parametrize(
    "text", ["{{#each a" + " " * 200_000 + "b as |}}", "{{#each " + " as" * 100_000 + "|}}", "{{#}}"]
)
def test_reading_a_block_is_linear(text: str) -> None:
    """A block of nothing but white space and half a name list is refused after one look at each character."""
    before = process_time()
    with pytest.raises(InvalidExpression):
        parse_handlebars(text)
    assert process_time() - before < 10, "a quadratic reading takes minutes"


def test_tags_are_bounded() -> None:
    """A template of more tags than anybody writes is refused, with the number that is allowed."""
    assert parse_handlebars("{{a}}" * MAX_TEMPLATE_TAGS).variables == ("a",)
    with pytest.raises(InvalidExpression, match=f"more than {MAX_TEMPLATE_TAGS} tags"):
        parse_handlebars("{{a}}" * (MAX_TEMPLATE_TAGS + 1))


def test_a_long_template_is_parsed_once() -> None:
    """Whoever asks again for the same long text gets the same parsed template."""
    text = "{{a}} " * 5_000
    assert parse_handlebars(text) is parse_handlebars("".join(["{{a}} "] * 5_000))


@pytest.mark.parametrize("body", ["{{this}}", "{{#if this}}{{/if}}", ""])
def test_loops_in_loops_are_bounded(body: str) -> None:
    """An #each in an #each ends at the limit of steps, not at the product of the lists."""
    items = list(range(3_000))
    template = parse_handlebars("{{#each a}}{{#each @root.a}}" + body + "{{/each}}{{/each}}")
    with pytest.raises(InvalidInput, match=f"{MAX_RENDER_STEPS} steps"):
        template.render({"a": items})
