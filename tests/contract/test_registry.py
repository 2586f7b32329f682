"""The registry on both stores: drafts, versions, the four arrows, and the way out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from tests.registry_kit import TENANT, House, add_chain, make_definition, make_verdict
from twinraven.foundation.errors import (
    AppendOnly,
    Conflict,
    IllegalTransition,
    InvalidDefinition,
    InvalidInput,
    NotFound,
    StaleState,
    StorageError,
    TwinRavenError,
)
from twinraven.registry import RegistryChange, RetirementReason, ToolStatus
from twinraven.storage import Database, Transaction

pytestmark = pytest.mark.tenants("acme", "other")


@pytest.fixture
def house(database: Database, tmp_path: Path) -> Generator[House]:
    house = House(database, tmp_path / "tools" / "generated")
    yield house
    house.close()


async def status_of(house: House, version: int, tool_id: str = "search_read") -> ToolStatus:
    found = (await house.registry.tool(TENANT, tool_id)).version(version)
    assert found is not None
    return found.status


async def agrees(house: House) -> bool:
    return await house.verification.verify(TENANT) == []


@pytest.mark.req("TR-22")
async def test_a_tool_without_a_stored_chain_is_refused(house: House) -> None:
    """Neither a draft nor a version can name a chain that is not there, and nothing is left of the attempt."""
    homeless = make_definition(chain_id=str(uuid4()))
    with pytest.raises(InvalidDefinition, match="source_chain_id"):
        await house.registry.draft(TENANT, homeless, evidence_hash="e")
    with pytest.raises(InvalidDefinition, match="source_chain_id"):
        await house.registry.register(TENANT, homeless, make_verdict())
    assert await house.registry.drafts(TENANT) == []
    assert await house.registry.tools(TENANT) == []
    assert not (house.folder / "search_read").exists()


@pytest.mark.req("TR-22")
async def test_another_tenants_chain_is_no_chain(house: House) -> None:
    """A chain of one tenant vouches for no tool of another."""
    foreign = await add_chain(house.database, tenant_id="other")
    with pytest.raises(InvalidDefinition, match="source_chain_id"):
        await house.registry.draft(TENANT, make_definition(chain_id=foreign), evidence_hash="e")


@pytest.mark.req("TR-21")
async def test_versions_rise_by_one_over_drafts(house: House) -> None:
    """Each synthesis takes the next number, whether the one before passed or not; numbers are never used again."""
    numbers = [(await house.draft()).version for _ in range(3)]
    await house.registry.register(TENANT, (await house.draft()), make_verdict())
    numbers.append(4)
    numbers.append((await house.draft()).version)
    assert numbers == [1, 2, 3, 4, 5]
    assert (house.folder / "search_read" / "v4.json").exists()
    assert not (house.folder / "search_read" / "v1.json").exists()


@pytest.mark.req("TR-21")
async def test_concurrent_syntheses_share_no_number(house: House) -> None:
    """Many who synthesise one chain at once get numbers without gap and without repetition."""
    drafts = await asyncio.gather(*(house.draft() for _ in range(12)))
    assert sorted(draft.version for draft in drafts) == list(range(1, 13))


@pytest.mark.req("TR-21")
async def test_the_same_evidence_makes_no_new_draft(house: House) -> None:
    """A synthesis that rests on what an earlier one rested on is that one again."""
    first = await house.draft(evidence="same")
    chain_id = await add_chain(house.database)
    again = await house.registry.draft(TENANT, make_definition(chain_id=chain_id), evidence_hash="same")
    assert (again.version, again.is_new) == (first.version, False)
    assert len(await house.registry.drafts(TENANT)) == 1


@pytest.mark.req("TR-21")
async def test_a_version_out_of_turn_is_refused(house: House) -> None:
    """A definition that no draft announced can be registered as the next version and as no other."""
    chain_id = await add_chain(house.database)
    with pytest.raises(Conflict, match="next version"):
        await house.registry.register(TENANT, make_definition(version=2, chain_id=chain_id), make_verdict())
    await house.registry.register(TENANT, make_definition(version=1, chain_id=chain_id), make_verdict())
    with pytest.raises(Conflict, match="next version"):
        await house.registry.register(TENANT, make_definition(version=3, chain_id=chain_id), make_verdict())
    assert await agrees(house)


async def test_a_draft_cannot_be_registered_as_something_else(house: House) -> None:
    """What was drafted under a number is what that number stands for."""
    draft = await house.draft()
    other = make_definition(version=draft.version, chain_id=draft.source_chain_id, description="Another.")
    with pytest.raises(Conflict, match="another definition"):
        await house.registry.register(TENANT, other, make_verdict())
    assert not (house.folder / "search_read").exists()


@pytest.mark.req("RG-01", "RG-03", "RG-04")
async def test_a_registered_tool_is_rows_and_files(house: House) -> None:
    """A version that passed is a readable file, a row that says the same, and an entry in the metadata."""
    await house.register()
    folder = house.folder / "search_read"
    tool = await house.registry.tool(TENANT, "search_read")
    assert (folder / "v1.json").read_text() == tool.current.text
    assert tool.record.definition_path == "search_read/v1.json"
    metadata = json.loads((folder / "metadata.json").read_text())
    assert (metadata["current_version"], metadata["versions"][0]["status"]) == (1, "testing")
    assert min(len(path.read_text().splitlines()) for path in folder.iterdir()) > 10
    assert (tool.current.validation_passed, tool.current.equivalence_score) == (True, 0.99)
    assert await agrees(house)


@pytest.mark.req("RG-01")
async def test_a_version_file_never_changes(house: House) -> None:
    """Promotion, supersession, rollback and retirement change nothing in a version's file."""
    await house.promote()
    file = house.folder / "search_read" / "v1.json"
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    await house.promote(description="Searches, reads, better.")
    await house.registry.rollback(TENANT, "search_read", to_version=1, by="ann")
    await house.registry.quarantine(TENANT, "search_read", reason="odd", by="ann")
    await house.registry.release(TENANT, "search_read", by="ann")
    await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="ann")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before


@pytest.mark.req("TR-18")
async def test_a_draft_that_failed_stays_one(house: House) -> None:
    """A verdict that did not pass is refused in words, and neither row nor file comes of it."""
    draft = await house.draft()
    with pytest.raises(InvalidInput, match="the answers differ"):
        await house.registry.register(TENANT, draft, make_verdict(passed=False))
    with pytest.raises(NotFound):
        await house.registry.promote(TENANT, "search_read", by="ann")
    assert not (house.folder / "search_read").exists()


@pytest.mark.parametrize(
    "verdict", [{}, {"passed": True}, {"passed": True, "equivalence_score": {"mean_similarity": 2}}, {"passed": 1}]
)
async def test_a_verdict_must_say_something(house: House, verdict: dict[str, object]) -> None:
    """A verdict without a decision and a score clears nothing."""
    draft = await house.draft()
    with pytest.raises(InvalidInput, match="validation"):
        await house.registry.register(TENANT, draft, verdict)


@pytest.mark.req("RG-07", "TR-18")
async def test_a_tool_waits_for_approval(house: House) -> None:
    """With required approval a tool that passed is not offered until somebody promotes it, or a newer version."""
    await house.register()
    assert await status_of(house, 1) is ToolStatus.TESTING
    with pytest.raises(NotFound):
        await house.call("search_read", {"q": "x"})
    record = await house.registry.promote(TENANT, "search_read", by="ann")
    assert record.is_in_service
    assert await house.call("search_read", {"q": "x"}) is not None
    for description in ("Better.", "Best."):
        await house.register(description=description)
    assert (await house.registry.promote(TENANT, "search_read", by="ann")).current_version == 3


@pytest.mark.req("RG-07", "RG-15")
async def test_without_required_approval_a_tool_is_promoted_at_once(house: House) -> None:
    """Where nobody has to approve, what passed is in service; the arrow through testing is still walked."""
    eager = house.with_settings(require_approval=False)
    await eager.register()
    assert await status_of(eager, 1) is ToolStatus.PROMOTED
    assert [change.event_type for change in eager.told] == ["tool.registered", "tool.promoted"]
    assert await agrees(eager)
    eager.close()


@pytest.mark.req("RG-07")
async def test_a_guessed_effect_always_waits_for_a_person(house: House) -> None:
    """A tool with a step whose effect was only inferred is not promoted without somebody's word."""
    eager = house.with_settings(require_approval=False)
    await eager.register("get_weather_summarize", steps=("get_weather", "summarize"))
    assert await status_of(eager, 1, "get_weather_summarize") is ToolStatus.TESTING
    eager.close()


@pytest.mark.req("RG-07")
async def test_what_a_model_had_a_hand_in_waits_for_a_person(house: House) -> None:
    """Words that a model wrote are read by somebody before other models see them, whatever the setting says."""
    eager = house.with_settings(require_approval=False)
    plain = make_definition(chain_id=await add_chain(eager.database, "search", "read"))
    advised = replace(plain, evidence={"advice": {"accepted": [{"what": "description", "value": "Finds."}]}})
    draft = await eager.registry.draft(TENANT, advised, evidence_hash="advised")
    await eager.registry.register(TENANT, draft.definition, make_verdict())
    assert await status_of(eager, 1) is ToolStatus.TESTING
    eager.close()


@pytest.mark.req("RG-05")
async def test_promotion_supersedes_and_keeps(house: House) -> None:
    """Until a new version is promoted the old one serves; afterwards it is superseded, on disk and in the rows."""
    await house.promote()
    await house.registry.flag(TENANT, "search_read", "drift", {"ratio": 0.1}, by="ann")
    await house.register(description="Searches, reads, better.")
    assert (await house.registry.tool(TENANT, "search_read")).record.current_version == 1
    assert house.learned.definition(TENANT, "search_read").version == 1
    await house.registry.promote(TENANT, "search_read", by="ann")
    tool = await house.registry.tool(TENANT, "search_read")
    first, second = tool.versions
    assert (tool.record.current_version, house.learned.definition(TENANT, "search_read").version) == (2, 2)
    assert (first.superseded_at, second.superseded_at, tool.record.flags) == (second.promoted_at, None, {})
    assert (house.folder / "search_read" / "v1.json").exists()
    assert await agrees(house)


@pytest.mark.req("RG-05")
async def test_an_older_version_does_not_supersede_a_newer(house: House) -> None:
    """A version that waited too long is not promoted over one that came after it; it can be rejected."""
    await house.register()
    await house.promote(description="Better.")
    with pytest.raises(Conflict, match="older than version 2"):
        await house.registry.promote(TENANT, "search_read", version=1, by="ann")
    await house.registry.reject(TENANT, "search_read", version=1, reason="overtaken", by="ann")
    assert (await house.registry.tool(TENANT, "search_read")).record.current_version == 2


@pytest.mark.req("RG-06")
async def test_rollback_brings_a_version_back(house: House) -> None:
    """The chosen version serves again and is no longer superseded; what was rolled back from is."""
    for description in ("One.", "Two.", "Three."):
        await house.promote(description=description)
    await house.registry.rollback(TENANT, "search_read", to_version=1, by="ann")
    tool = await house.registry.tool(TENANT, "search_read")
    assert (tool.record.current_version, tool.record.status) == (1, ToolStatus.PROMOTED)
    assert [version.superseded_at is None for version in tool.versions] == [True, False, False]
    assert (house.told[-1].event_type, house.told[-1].version, house.told[-1].by) == ("tool.rolled_back", 1, "ann")
    assert house.learned.definition(TENANT, "search_read").description == "One."
    await house.registry.rollback(TENANT, "search_read", to_version=3, by="ann")
    assert house.learned.definition(TENANT, "search_read").description == "Three."
    assert await agrees(house)


@pytest.mark.req("RG-06", "TR-18")
async def test_rollback_refuses_what_never_served(house: House) -> None:
    """Only a version that was in service can be again; the current one is not rolled back to."""
    await house.promote()
    await house.register()
    with pytest.raises(IllegalTransition, match="never in service"):
        await house.registry.rollback(TENANT, "search_read", to_version=2, by="ann")
    with pytest.raises(Conflict, match="current"):
        await house.registry.rollback(TENANT, "search_read", to_version=1, by="ann")
    with pytest.raises(NotFound, match="version 7"):
        await house.registry.rollback(TENANT, "search_read", to_version=7, by="ann")


@pytest.mark.req("RG-08", "TR-18")
async def test_retirement_is_final(house: House) -> None:
    """A retired tool says why and when, is not offered, and nothing brings it back."""
    await house.promote()
    await house.register()
    await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="ann", note="no longer needed")
    tool = await house.registry.tool(TENANT, "search_read")
    first, second = tool.versions
    assert (tool.record.status, tool.record.retirement_reason) == (ToolStatus.RETIRED, RetirementReason.MANUAL)
    assert first.retired_at is not None
    assert second.status is ToolStatus.DRAFT
    assert house.learned.find(TENANT, "search_read") is None
    registry = house.registry
    attempts = [
        registry.promote(TENANT, "search_read", by="ann", version=2),
        registry.rollback(TENANT, "search_read", to_version=1, by="ann"),
        registry.retire(TENANT, "search_read", RetirementReason.DRIFT, by="ann"),
        registry.quarantine(TENANT, "search_read", reason="odd", by="ann"),
        registry.register(TENANT, second.definition, make_verdict()),
    ]
    for attempt in attempts:
        with pytest.raises(IllegalTransition):
            await attempt
    assert await agrees(house)


@pytest.mark.req("RG-08", "TR-18")
async def test_what_never_served_cannot_be_retired(house: House) -> None:
    """A tool that only waits is rejected, not retired."""
    await house.register()
    with pytest.raises(IllegalTransition, match="testing"):
        await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="ann")


@pytest.mark.req("RG-08")
async def test_a_chain_that_re_emerges_is_a_new_tool(house: House) -> None:
    """After retirement the same chain gets a new name and version one, and names the tool it replaces."""
    await house.promote()
    await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="ann")
    second = await house.draft()
    assert (second.tool_id, second.version, second.replaces) == ("search_read_2", 1, "search_read")
    assert ((await house.draft()).tool_id, (await house.draft()).version) == ("search_read_2", 3)


@pytest.mark.req("RG-08")
async def test_a_promoted_replacement_retires_what_it_replaces(house: House) -> None:
    """The replaced tool serves until its replacement is promoted, and is then retired as superseded."""
    await house.promote()
    await house.register("read_better", steps=("read", "summarize"), replaces="search_read")
    assert house.learned.find(TENANT, "search_read") is not None
    await house.registry.promote(TENANT, "read_better", by="ann")
    old = (await house.registry.tool(TENANT, "search_read")).record
    assert (old.status, old.retirement_reason) == (ToolStatus.RETIRED, RetirementReason.SUPERSEDED)
    assert house.learned.find(TENANT, "search_read") is None
    assert await agrees(house)


async def test_a_name_that_is_taken_gets_a_number(house: House) -> None:
    """Another chain of the same name is another tool, and a tool that was not learned keeps its name."""
    await house.register()
    other = await house.draft(steps=("search", "summarize"))
    assert (other.tool_id, other.replaces) == ("search_read_2", None)
    foreign = await house.draft("search", steps=("read", "summarize"))
    assert foreign.tool_id == "search_2"


@pytest.mark.req("AE-07")
async def test_a_name_of_a_tool_that_was_not_learned_is_refused(house: House) -> None:
    """A learned tool cannot hide one that was there before."""
    chain_id = await add_chain(house.database)
    with pytest.raises(Conflict, match="not learned"):
        await house.registry.register(TENANT, make_definition("summarize", chain_id=chain_id), make_verdict())


@pytest.mark.req("TR-18")
async def test_rejection_sends_a_version_back_and_is_remembered(house: House) -> None:
    """A rejected version is a draft again, and its chain is not proposed again on the same evidence."""
    await house.register(evidence="thin")
    said = await house.registry.reject(TENANT, "search_read", reason="reads the wrong page", by="ann")
    assert await status_of(house, 1) is ToolStatus.DRAFT
    assert (said.reason, said.by) == ("reads the wrong page", "ann")
    chain_id = await add_chain(house.database)
    definition = make_definition(chain_id=chain_id)
    with pytest.raises(Conflict, match="reads the wrong page"):
        await house.registry.draft(TENANT, definition, evidence_hash="thin")
    assert await house.registry.rejection(TENANT, definition, "thin") == said
    more = await house.registry.draft(TENANT, definition, evidence_hash="thick")
    assert more.version == 2
    assert await agrees(house)


@pytest.mark.req("TR-18")
async def test_a_version_sent_back_can_be_tested_again(house: House) -> None:
    """Draft to testing is an arrow of its own: the same version returns with a new verdict."""
    await house.register()
    await house.registry.reject(TENANT, "search_read", reason="not yet", by="ann")
    definition = (await house.registry.tool(TENANT, "search_read")).versions[0].definition
    await house.registry.register(TENANT, definition, make_verdict(score=1.0))
    tool = await house.registry.tool(TENANT, "search_read")
    assert (tool.current.status, tool.current.equivalence_score) == (ToolStatus.TESTING, 1.0)
    assert await agrees(house)


@pytest.mark.req("TR-18")
async def test_a_promoted_version_cannot_be_rejected(house: House) -> None:
    """What serves is retired or quarantined, not rejected; and a rejection has a reason."""
    await house.promote()
    with pytest.raises(IllegalTransition):
        await house.registry.reject(TENANT, "search_read", reason="odd", by="ann", version=1)
    with pytest.raises(IllegalTransition, match="waits for a decision"):
        await house.registry.reject(TENANT, "search_read", reason="odd", by="ann")
    with pytest.raises(InvalidInput, match="say why"):
        await house.registry.reject(TENANT, "search_read", reason=" ", by="ann")


async def test_quarantine_takes_a_tool_out_at_once(house: House) -> None:
    """A quarantined tool cannot be called until it is released, and keeps its version and status."""
    await house.promote()
    record = await house.registry.quarantine(TENANT, "search_read", reason="answers nonsense", by="ann")
    assert record.quarantine is not None
    with pytest.raises(NotFound):
        await house.call("search_read", {"q": "x"})
    assert await status_of(house, 1) is ToolStatus.PROMOTED
    with pytest.raises(Conflict, match="answers nonsense"):
        await house.registry.quarantine(TENANT, "search_read", reason="again", by="bob")
    await house.registry.release(TENANT, "search_read", by="ann")
    assert await house.call("search_read", {"q": "x"}) is not None
    with pytest.raises(Conflict, match="not quarantined"):
        await house.registry.release(TENANT, "search_read", by="ann")
    assert await agrees(house)


@pytest.mark.req("TR-15", "TR-21")
async def test_a_tool_gets_its_name_before_it_serves(house: House) -> None:
    """Under its new name a tool has the same versions, drafts and verdicts; of the old name nothing is left."""
    await house.draft()
    await house.register()
    await house.registry.promote(TENANT, "search_read", new_id="find_and_read", by="ann")
    tool = await house.registry.tool(TENANT, "find_and_read")
    assert [version.version for version in tool.versions] == [2]
    assert [draft.tool_id for draft in await house.registry.drafts(TENANT)] == ["find_and_read"] * 2
    assert tool.current.definition.tool_id == "find_and_read"
    assert sorted(path.name for path in house.folder.iterdir()) == [".locks", "find_and_read"]
    assert ((await house.draft()).tool_id, (await house.draft()).version) == ("find_and_read", 4)
    assert await house.call("find_and_read", {"q": "x"}) is not None
    assert await agrees(house)


@pytest.mark.req("TR-15")
async def test_a_name_given_with_the_promotion_comes_with_it_or_not_at_all(house: House) -> None:
    """What cannot be promoted is not renamed either; what can is, in one transaction and under one revision."""
    await house.register()
    seen = (await house.registry.tool(TENANT, "search_read")).record.revision
    files = sorted(path.name for path in house.folder.rglob("*"))
    attempts: list[tuple[dict[str, int], type[TwinRavenError]]] = [
        ({"version": 99}, NotFound),
        ({"expected_revision": seen + 1}, StaleState),
    ]
    for odd, error in attempts:
        with pytest.raises(error):
            await house.registry.promote(TENANT, "search_read", new_id="find_and_read", by="ann", **odd)
    await house.registry.reject(TENANT, "search_read", reason="no", by="ann")
    with pytest.raises(IllegalTransition):
        await house.registry.promote(TENANT, "search_read", version=1, new_id="find_and_read", by="ann")
    assert [record.tool_id for record in await house.registry.tools(TENANT)] == ["search_read"]
    assert sorted(path.name for path in house.folder.rglob("*")) == files
    await house.register(description="Better.")
    seen = (await house.registry.tool(TENANT, "search_read")).record.revision
    record = await house.registry.promote(
        TENANT, "search_read", new_id="find_and_read", by="ann", expected_revision=seen
    )
    assert (record.tool_id, record.current_version, record.revision) == ("find_and_read", 2, seen + 1)
    assert [each.tool_id for each in await house.registry.tools(TENANT)] == ["find_and_read"]
    assert await house.call("find_and_read", {"q": "x"}) is not None
    assert await agrees(house)


@pytest.mark.req("TR-15")
async def test_a_tool_that_served_keeps_its_name(house: House) -> None:
    """Once agents know a tool, its name stays; and a name that is taken, or is no name, is refused."""
    await house.promote()
    await house.register(description="Better.")
    await house.register("other", steps=("search", "summarize"))
    with pytest.raises(IllegalTransition, match="renamed"):
        await house.registry.promote(TENANT, "search_read", new_id="find_and_read", by="ann")
    for taken in ("search_read", "search"):
        with pytest.raises(Conflict):
            await house.registry.promote(TENANT, "other", new_id=taken, by="ann")
    for no_name in ("", "../up", "with space", "line\n", "Upper", "x" * 129):
        with pytest.raises(InvalidInput, match="slug"):
            await house.registry.promote(TENANT, "other", new_id=no_name, by="ann")
    assert await agrees(house)


async def test_a_tool_cannot_be_a_step_of_itself_by_a_detour(house: House) -> None:
    """A version that would close a circle through other learned tools is refused."""
    await house.promote("inner", steps=("search", "read"))
    await house.promote("outer", steps=("inner", "summarize"))
    chain_id = await add_chain(house.database)
    inner = make_definition("inner", steps=("outer", "summarize"), version=2, chain_id=chain_id)
    with pytest.raises(InvalidDefinition, match="detour"):
        await house.registry.register(TENANT, inner, make_verdict())
    assert await agrees(house)


@pytest.mark.parametrize("replaces", ["../../etc", "a/b", "x\n"])
async def test_what_a_tool_replaces_must_be_a_name(house: House, replaces: str) -> None:
    """A definition cannot lead the registry to a file by the name of what it replaces."""
    chain_id = await add_chain(house.database)
    with pytest.raises(InvalidInput, match="replaces"):
        await house.registry.register(TENANT, make_definition(chain_id=chain_id, replaces=replaces), make_verdict())


@pytest.mark.req("RG-14")
async def test_a_version_is_promoted_once(house: House) -> None:
    """Of many who promote the same version at once, one does and the others are told that it is done."""
    await house.register()
    attempts = [house.registry.promote(TENANT, "search_read", version=1, by=f"p{number}") for number in range(6)]
    outcomes = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(not isinstance(outcome, BaseException) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, IllegalTransition) for outcome in outcomes) == 5
    assert await agrees(house)


@pytest.mark.req("TR-18", "RG-05", "RG-08", "RG-09", "RG-14")
@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tool_versions SET status = 'promoted' WHERE status = 'draft'",
        "UPDATE tool_versions SET status = 'testing' WHERE status = 'promoted'",
        "UPDATE tool_versions SET status = 'promoted' WHERE status = 'retired'",
        "UPDATE tool_versions SET superseded_at = NULL WHERE tool_id = 'lively'",
        "UPDATE tool_versions SET definition = '{}'",
        "UPDATE tool_records SET retirement_reason = NULL WHERE tool_id = 'gone'",
        "UPDATE tool_records SET retirement_reason = 'drift' WHERE tool_id = 'gone'",
        "UPDATE tool_records SET invocation_count = invocation_count - 1 WHERE tool_id = 'lively'",
        "UPDATE drafts SET version = version + 10",
        "DELETE FROM candidate_chains",
    ],
)
async def test_the_database_refuses_what_never_happens(house: House, statement: str) -> None:
    """Whoever asks: no status out of order, no second version in service, no return, no falling count."""
    await house.promote("lively")
    await house.promote("lively", description="Searches, reads, better.")
    await house.promote("gone", steps=("read", "summarize"))
    await house.register("gone", steps=("read", "summarize"))
    await house.registry.retire(TENANT, "gone", RetirementReason.MANUAL, by="ann")
    count = "UPDATE tool_records SET invocation_count = 5 WHERE tool_id = 'lively'"
    await house.database.write(TENANT, lambda tx: tx.execute(count))
    with pytest.raises((AppendOnly, Conflict)):
        await house.database.write(TENANT, lambda tx: tx.execute(statement))
    assert await agrees(house)


@pytest.mark.req("RG-01")
async def test_tenants_do_not_meet(house: House) -> None:
    """The same name in two tenants is two tools, in two folders, offered to their own alone."""
    await house.promote()
    await house.promote(tenant_id="acme", description="Acme's own.")
    assert house.learned.definition("acme", "search_read").description == "Acme's own."
    assert (house.folder / "@acme" / "search_read" / "v1.json").exists()
    await house.registry.retire("acme", "search_read", RetirementReason.MANUAL, by="ann")
    assert house.learned.find(TENANT, "search_read") is not None
    assert house.learned.find("acme", "search_read") is None
    with pytest.raises(NotFound):
        await house.registry.tool("nobody", "search_read")
    assert await agrees(house)
    assert await house.verification.verify("acme") == []


@pytest.mark.req("RG-04")
async def test_every_change_is_witnessed_in_its_transaction(house: House) -> None:
    """What the witness refuses does not happen, in rows or in files."""
    await house.register()

    def refuse(tx: Transaction, change: RegistryChange) -> None:
        raise StorageError(f"{change.event_type} cannot be audited")

    unseen = replace(house, witness=refuse)
    with pytest.raises(StorageError, match="audited"):
        await unseen.registry.promote(TENANT, "search_read", by="ann")
    draft = await house.draft()
    with pytest.raises(StorageError, match="audited"):
        await unseen.registry.register(TENANT, draft, make_verdict())
    unseen.close()
    assert await status_of(house, 1) is ToolStatus.TESTING
    assert not (house.folder / "search_read" / "v2.json").exists()
    assert await agrees(house)


async def test_changes_say_who_and_why(house: House) -> None:
    """An audit log is told the tool, the version, who acted and the reason."""
    await house.promote()
    await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="bob", note="enough")
    last = house.told[-1]
    assert (last.event_type, last.tool_id, last.version, last.by) == ("tool.retired", "search_read", 1, "bob")
    assert last.data == {"reason": "manual", "note": "enough"}
