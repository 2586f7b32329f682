"""What a person sees before saying yes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from tests.registry_kit import TENANT, House, make_verdict
from twinraven.flow import StepDefinition
from twinraven.registry import RegisteredTool, Review, SynthesizedTool, review_version

EVIDENCE: dict[str, Any] = {
    "chain": ["search", "read"],
    "steps": [
        {"tool_id": "search", "asked": ["query"], "arguments": {}},
        {
            "tool_id": "read",
            "asked": [],
            "arguments": {
                "url": {
                    "source": "$.steps[0].output.top_result_url",
                    "for": 40,
                    "against": 2,
                    "also": [{"source": "$.steps[0].output.mirror", "for": 31}],
                }
            },
        },
    ],
}


async def reviewed(house: House, number: int) -> Review:
    tool = await house.registry.tool(TENANT, "search_read")
    chain = await house.registry.chain(TENANT, tool.versions[0].definition.source_chain_id)
    return review_version(tool, number, chain, lambda name: house.learned.find_any(TENANT, name))


async def register(house: House, **changes: Any) -> None:
    draft = replace(await house.draft(), **changes)
    made = await house.registry.draft(TENANT, draft, evidence_hash=f"again {draft.version}")
    await house.registry.register(TENANT, made.definition, make_verdict(), savings={"turns_saved": 12})


async def test_a_review_holds_all_there_is_to_know(house: House) -> None:
    """Chain, wiring with evidence for and against, effects, sensitivity, verdict and savings are all there."""
    await register(house, evidence=EVIDENCE)
    found = await reviewed(house, 2)
    assert found.chain is not None
    assert (found.chain["tools"], found.chain["support"]) == (["search", "read"], 0.4)
    assert isinstance(found.chain["discovered_at"], datetime)
    assert (found.entry.effect, found.entry.sensitivity) == ("read", "medium")
    (query,), (url,) = (step.arguments for step in found.steps)
    assert (query.source, query.agreed) == ("asked of the caller", None)
    assert (url.source, url.agreed, url.disagreed) == ("$.steps[0].output.top_result_url", 40, 2)
    assert url.rivals == ("$.steps[0].output.mirror (31)",)
    assert found.version.savings == {"turns_saved": 12}
    body = found.as_json()
    assert body["validation"]["passed"] is True
    assert (body["compared_with"], body["diff"]) == (None, [])


@pytest.mark.parametrize(
    ("principals", "words"),
    [
        (
            None,
            "12 sessions that name nobody, so they may all be one person's; behind url, the least of its choices: 9",
        ),
        (3, "12 sessions of 3 principals; behind url, the least of its choices: 9 sessions of 1 principal"),
    ],
)
async def test_a_review_says_whose_sessions_stand_behind_it(house: House, principals: int | None, words: str) -> None:
    """The verdict's sessions and principals are said in words, those of the weakest choice beside them."""
    draft = replace(await house.draft(), evidence=_told_by(9, None if principals is None else 1))
    made = await house.registry.draft(TENANT, draft, evidence_hash="another")
    verdict = {**make_verdict(), "sessions_replayed": 12, "principals": principals}
    await house.registry.register(TENANT, made.definition, verdict, savings={"turns_saved": 12})
    found = await reviewed(house, 2)
    assert found.backing == words
    assert found.as_json()["backing"] == words


def _told_by(sessions: int, principals: int | None) -> dict[str, Any]:
    search, read = EVIDENCE["steps"]
    url = {**read["arguments"]["url"], "sessions": sessions, "principals": principals}
    return {**EVIDENCE, "steps": [search, {**read, "arguments": {"url": url}}]}


async def test_a_review_compares_with_what_serves(house: House) -> None:
    """The difference is to the version in service; a line that changed is shown, one that did not is not."""
    await house.promote()
    await house.register(description="Between.")
    await register(house, description="Searches and reads, better.")
    found = await reviewed(house, 4)
    assert found.compared_with == 1
    assert '-  "description": "Searches and reads.",' in found.diff
    assert '+  "description": "Searches and reads, better.",' in found.diff
    assert not any('"tool_id": "search"' in line for line in found.diff if line.startswith(("+", "-")))


async def test_a_step_that_is_gone_is_shown_as_gone(house: House) -> None:
    """A reviewer sees that a step is no longer there before promoting it."""
    await house.register()
    tool = await house.registry.tool(TENANT, "search_read")
    found = review_version(tool, 1, None, lambda _: None)
    assert [step.effect for step in found.steps] == ["not there", "not there"]
    assert found.as_json()["chain"] is None


@pytest.mark.parametrize(
    ("mapping", "for_each", "words"),
    [
        ({"url": "$.parameters.q"}, None, "asked of the caller"),
        ({"url": "$.internal_wiring.0.link"}, None, "$.steps[0].output.link"),
        ({"url": "$.steps[0].output.link"}, None, "$.steps[0].output.link"),
        ({"url": 7}, None, "always 7"),
        (
            {"url": {"$read": {"of": "$.steps[0].output", "as": "json", "at": "$.link"}}},
            None,
            "link in the answer of step 1, read as JSON",
        ),
        ({"url": "$.item"}, "$.steps[0].output.all", "each of $.steps[0].output.all"),
        ({"url": "$.item.id"}, "$.steps[0].output.all", "each of $.steps[0].output.all, its id"),
    ],
)
async def test_a_mapping_is_told_in_words(
    house: House, mapping: dict[str, Any], for_each: str | None, words: str
) -> None:
    """Without recorded evidence a reviewer still reads where an argument comes from."""
    await house.register()
    tool = await house.registry.tool(TENANT, "search_read")
    rewired = _rewired(tool, StepDefinition(1, "read", mapping, for_each=for_each))
    found = review_version(rewired, 1, None, lambda name: house.learned.find_any(TENANT, name))
    assert [argument.source for argument in found.steps[1].arguments] == [words]


@pytest.mark.parametrize(
    ("mapping", "for_each", "parameters"),
    [
        ({"url": "$.parameters.q"}, None, ("q",)),
        ({"url": "$.parameters.q.deep"}, None, ("q",)),
        ({"url": {"$join": ["$.parameters.site", "$.parameters.path", "$.parameters.site"]}}, None, ("site", "path")),
        ({"url": "$.internal_wiring.0.link"}, None, ()),
        ({"url": "$.internal_wiring.0.asked"}, None, ("q",)),
        ({"url": "$.steps[0].output.link"}, None, ()),
        ({"url": 7}, None, ()),
        ({"url": "$.item"}, "$.steps[0].output.all", ()),
        ({"url": "$.item"}, "$.parameters.urls", ("urls",)),
        ({"url": ["$.item.id", "$.parameters.q"]}, "$.parameters.urls", ("urls", "q")),
    ],
)
async def test_a_review_names_the_callers_parameters_behind_an_argument(
    house: House, mapping: dict[str, Any], for_each: str | None, parameters: tuple[str, ...]
) -> None:
    """What the caller gives is told from constants and earlier answers, also behind the wiring and a list."""
    await house.register()
    tool = await house.registry.tool(TENANT, "search_read")
    rewired = _rewired(tool, StepDefinition(1, "read", mapping, for_each=for_each))
    found = review_version(rewired, 1, None, lambda name: house.learned.find_any(TENANT, name))
    assert [argument.parameters for argument in found.steps[1].arguments] == [parameters]
    assert found.as_json()["steps"][1]["arguments"][0]["parameters"] == list(parameters)


def _rewired(tool: RegisteredTool, step: StepDefinition) -> RegisteredTool:
    from twinraven.registry import definition_text

    version = tool.versions[0]
    definition: SynthesizedTool = version.definition
    changed = replace(
        definition,
        steps=(definition.steps[0], step),
        internal_wiring={"0": {"link": "$.steps[0].output.link", "asked": "$.parameters.q"}},
    )
    return RegisteredTool(tool.record, (replace(version, text=definition_text(changed)),))
