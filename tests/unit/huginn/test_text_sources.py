"""Learning from tools that answer in text: each shape of answer is wired, replayed and written down."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.huginn.billing_world import SessionScript, traces
from twinraven.huginn import LearningConfig, LearningReport, ToolCandidate, ToolFacts
from twinraven.huginn.learning import Learner

NOW = datetime(2026, 3, 2, tzinfo=UTC)

Made = tuple[dict[str, Any], Any, list[dict[str, Any]]]
"""The first call's arguments, its answer, and the arguments of the calls after it."""


def _names(rng: random.Random, count: int) -> list[str]:
    return [f"{rng.choice(['plan', 'memo', 'todo'])}-{rng.randrange(10**6)}.md" for _ in range(count)]


def _block(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def lines_of_a_folder(rng: random.Random) -> Made:
    folder, names = f"/srv/f{rng.randrange(10**5)}", _names(rng, rng.randrange(1, 5))
    text = "\n".join(f"[FILE] {name}" for name in names)
    return {"path": folder}, _block(text), [{"path": f"{folder}/{name}"} for name in names]


def json_after_a_sentence(rng: random.Random) -> Made:
    page = f"pg{rng.randrange(10**9)}"
    return {"q": f"w{rng.randrange(10**6)}"}, f'Found 2 pages:\n[{{"id": "{page}"}}, {{"id": "x"}}]', [{"page": page}]


def several_blocks(rng: random.Random) -> Made:
    cards = [f"card_{rng.randrange(10**8)}" for _ in range(rng.randrange(1, 4))]
    blocks = [{"type": "text", "text": f'{{"id": "{card}", "n": {number}}}'} for number, card in enumerate(cards)]
    return {"board": f"b{rng.randrange(10**6)}"}, {"content": blocks}, [{"card": card} for card in cards]


def labelled_line(rng: random.Random) -> Made:
    customer = f"cus_{rng.randrange(10**9)}"
    return (
        {"email": f"u{rng.randrange(10**6)}@x.test"},
        f"Found.\n\nID: {customer}\nName: Ann",
        [{"customer": customer}],
    )


def python_repr(rng: random.Random) -> Made:
    row = rng.randrange(10**6)
    query = f"SELECT id FROM people WHERE name = 'n{rng.randrange(10**6)}'"
    return {"sql": query}, f"[{{'id': {row}, 'x': None}}]", [{"sql": f"SELECT * FROM orders WHERE person = {row}"}]


def list_argument(rng: random.Random) -> Made:
    tables = [f"t{rng.randrange(10**6)}" for _ in range(rng.randrange(2, 5))]
    return {"like": f"l{rng.randrange(10**6)}"}, {"result": ", ".join(tables)}, [{"tables": tables}]


def objects_to_list(rng: random.Random) -> Made:
    names = [f"node {rng.randrange(10**6)}" for _ in range(rng.randrange(1, 5))]
    return {"query": f"q{rng.randrange(10**6)}"}, {"entities": [{"name": name} for name in names]}, [{"names": names}]


SHAPES: list[Callable[[random.Random], Made]] = [
    lines_of_a_folder,
    json_after_a_sentence,
    several_blocks,
    labelled_line,
    list_argument,
    objects_to_list,
]


async def learn(make: Callable[[random.Random], Made], *, second: str = "read_it", count: int = 30) -> LearningReport:
    """Sessions as a gateway records them: nobody hears the user."""
    rng = random.Random(8)
    scripts: list[SessionScript] = []
    for number in range(count):
        given, answer, later = make(rng)
        script = SessionScript(f"s{number}", f"task-{number}")
        script.call("find_it", given, answer)
        for params in later:
            script.call(second, params, {"text": f"answer {rng.random()}"})
        scripts.append(script)
    return await Learner(LearningConfig(), ToolFacts(), now=lambda: NOW).learn(traces(scripts))


def chosen(report: LearningReport) -> list[ToolCandidate]:
    return [item.tool for item in report.chosen if item.tool.shape != "batch"]


@pytest.mark.parametrize("make", SHAPES, ids=lambda make: make.__name__)
async def test_a_value_inside_a_text_is_wired_and_proven(make: Callable[[random.Random], Made]) -> None:
    """Thirty sessions without a user's words teach the chain, whatever the form of the answer."""
    report = await learn(make)
    (tool,) = chosen(report)
    assert tool.chain == ("find_it", "read_it"), report.refused
    verdict = next(draft.verdict for draft in report.drafts if draft.tool is tool)
    assert verdict.passed
    assert verdict.hits == verdict.uses


async def test_a_tool_can_take_from_its_own_answer() -> None:
    """A query whose result goes into the next query of the same tool is a chain of that tool with itself."""
    report = await learn(python_repr, second="find_it")
    (tool,) = chosen(report)
    assert tool.chain == ("find_it", "find_it")
    assert tool.definition.steps[1].input_mapping["sql"]["$affix"]["before"] == "SELECT * FROM orders WHERE person = "


async def test_only_the_elements_that_agents_take_are_taken() -> None:
    """Where agents read the files of a folder and never its folders, so does the tool."""

    def make(rng: random.Random) -> Made:
        folder, names = f"/srv/f{rng.randrange(10**5)}", _names(rng, rng.randrange(1, 4))
        entries = [f"[FILE] {name}" for name in names] + ["[DIR] old"] * (rng.random() < 0.4)
        rng.shuffle(entries)
        taken = [entry.removeprefix("[FILE] ") for entry in entries if entry.startswith("[FILE]")]
        return {"path": folder}, _block("\n".join(entries)), [{"path": f"{folder}/{name}"} for name in taken]

    (tool,) = chosen(await learn(make, count=60))
    (wired,) = tool.definition.internal_wiring["0"].values()
    assert wired["$where"]["equals"] == "FILE"


async def test_an_address_that_an_answer_names_is_not_opened() -> None:
    """A page that points to another host does not become a tool that goes there; one on its own host does."""

    def foreign(rng: random.Random) -> Made:
        page = f"https://evil{rng.randrange(10**4)}.test/x"
        return {"url": f"https://shop.test/{rng.randrange(10**6)}"}, f"see {page}", [{"url": page}]

    def own(rng: random.Random) -> Made:
        page = f"https://shop.test/p{rng.randrange(10**6)}"
        return {"url": f"https://shop.test/{rng.randrange(10**6)}"}, f"see {page} for more", [{"url": page}]

    refused = await learn(foreign)
    assert not chosen(refused)
    assert "which an answer named and the caller did not" in refused.refused["find_it", "read_it"]
    assert chosen(await learn(own))


async def test_an_approver_sees_what_is_taken_out_of_a_text() -> None:
    """The evidence of a source inside a text names the reader, whose sessions agree, and examples."""
    (tool,) = chosen(await learn(labelled_line))
    told = tool.definition.evidence["steps"][1]["arguments"]["customer"]
    assert told["source"] == "$.steps[0].output read as fields, ID"
    assert (told["for"], told["against"], told["sessions"]) == (30, 0, 30)
    assert all(example.startswith('"cus_') for example in told["examples"])


async def test_what_the_caller_names_is_looked_up() -> None:
    """An id that stands under a name in an answer is looked up by that name, which the user said in another case."""
    rng = random.Random(3)
    catalogue = {f"Thing {letter}": f"{rng.randrange(10**9)}" for letter in "ABCDEFGHIJ"}
    scripts: list[SessionScript] = []
    for number in range(40):
        name = rng.choice(list(catalogue))
        script = SessionScript(f"s{number}", f"task-{number}")
        script.call("list_things", {}, dict(catalogue), said=f"what of the {name.lower()}?")
        script.call("get_thing", {"thing_id": catalogue[name]}, {"size": rng.random()})
        scripts.append(script)
    report = await Learner(LearningConfig(), ToolFacts(), now=lambda: NOW).learn(traces(scripts))
    (draft,) = [each for each in report.drafts if each.verdict.passed]
    definition = draft.tool.definition
    assert definition.parameters["required"] == ["thing_name"]
    assert draft.verdict.uses == draft.verdict.hits == 40
    mapped = definition.steps[1].input_mapping["thing_id"]
    assert mapped["$where"]["equals"] == "$.parameters.thing_name"


def _aligned(rows: list[tuple[str, str, str]]) -> str:
    return "\n".join("  ".join(cell.ljust(18) for cell in row).rstrip() for row in [("SKU", "PRODUCT", "STOCK"), *rows])


def _piped(rows: list[tuple[str, str, str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in [("SKU", "PRODUCT", "STOCK"), *rows]]
    return "\n".join([lines[0], "|---|---|---|", *lines[1:]])


def _listed(rows: list[tuple[str, str, str]]) -> str:
    return "\n\n".join(f"SKU: {sku}\nPRODUCT: {product}\nSTOCK: {stock}" for sku, product, stock in rows)


@pytest.mark.parametrize("write", [_aligned, _piped, _listed])
async def test_what_the_caller_names_is_looked_up_in_a_text(write: Callable[[list[tuple[str, str, str]]], str]) -> None:
    """An id in the row of a table, or in a record, whose name the user said is looked up by that name."""
    rng = random.Random(5)
    scripts: list[SessionScript] = []
    for number in range(30):
        rows = [
            (f"SK-{rng.randrange(10**6):06}", f"amber {rng.randrange(10**4)}", str(rng.randrange(9))) for _ in "abcd"
        ]
        wanted, shelf = rng.choice(rows), f"shelf {rng.randrange(10**5)}"
        script = SessionScript(f"s{number}", f"task-{number}")
        script.call("list_products", {"shelf": shelf}, write(rows), said=f"what of {wanted[1]} on {shelf}?")
        script.call("get_product", {"sku": wanted[0]}, {"price": rng.random()})
        scripts.append(script)
    (tool,) = chosen(await Learner(LearningConfig(), ToolFacts(), now=lambda: NOW).learn(traces(scripts)))
    assert tool.shape == "chain"
    looked_up = tool.definition.steps[1].input_mapping["sku"]["$at"]["of"]["$where"]
    assert looked_up["at"] == "$.PRODUCT"
    assert looked_up["equals"].startswith("$.parameters.")
    assert "$read" in looked_up["of"]
