"""Files and rows: each made from the other, neither taken on trust."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.registry_kit import TENANT, House, make_definition
from twinraven.foundation.errors import Conflict
from twinraven.registry import RetirementReason, SynthesizedTool, UnsafePath, definition_text
from twinraven.storage import Transaction

SEED = Path(__file__).parent / "search_read_summarize.json"

Damage = Callable[[Path], None]


async def kinds(house: House) -> set[tuple[str, str | None]]:
    return {(found.kind, found.settled_by) for found in await house.verification.verify(TENANT)}


async def snapshot(house: House, tool_id: str = "search_read") -> Any:
    tool = await house.registry.tool(TENANT, tool_id)
    return tool.versions, tool.record.as_json() | {"revision": 0}


async def forget_rows(house: House) -> None:
    def work(tx: Transaction) -> None:
        for table in ("tool_versions", "tool_records", "drafts", "registry_state", "catalog_version"):
            tx.execute(f"DELETE FROM {table} WHERE tenant_id = :tenant", tenant=TENANT)

    await house.database.write(TENANT, work)


async def lively(house: House) -> None:
    """A tool with a past: superseded, rolled back, quarantined and marked."""
    await house.promote()
    await house.promote(description="Searches, reads, better.")
    await house.registry.rollback(TENANT, "search_read", to_version=1, by="ann")
    await house.register(description="Not yet approved.")
    await house.registry.quarantine(TENANT, "search_read", reason="odd", by="ann")
    await house.registry.flag(TENANT, "search_read", "drift", {"ratio": 0.1}, by="ann")


@pytest.mark.req("RG-01", "RG-03")
async def test_rows_are_rebuilt_from_files(house: House) -> None:
    """From the files alone comes the registry as it was: versions, status, times, verdicts, marks."""
    await lively(house)
    await house.promote("other", steps=("read", "summarize"))
    await house.registry.retire(TENANT, "other", RetirementReason.MANUAL, by="ann")
    before = [await snapshot(house), await snapshot(house, "other")]
    await forget_rows(house)
    assert await kinds(house) == {("unknown", "rows")}
    rebuilt = await house.verification.rebuild_rows(TENANT, by="ann")
    assert (rebuilt.tools, rebuilt.left) == (("other", "search_read"), {})
    assert [await snapshot(house), await snapshot(house, "other")] == before
    assert await kinds(house) == set()
    assert (await house.draft()).version == 4


@pytest.mark.req("TR-21")
async def test_numbers_go_on_behind_those_of_files(house: House) -> None:
    """Where rows were made from files and no draft is known, the next synthesis takes the next number."""
    await lively(house)
    await forget_rows(house)
    await house.verification.rebuild_rows(TENANT, by="ann")
    assert ((await house.draft()).version, (await house.draft()).version) == (4, 5)


@pytest.mark.req("RG-03")
async def test_what_a_writer_that_died_left_goes_with_the_next_act(house: House) -> None:
    """A file that was never put in its place is taken away by whoever changes the tool next."""
    await house.promote()
    half_written(house.folder / "search_read")
    await house.registry.quarantine(TENANT, "search_read", reason="odd", by="ann")
    assert sorted(path.name for path in (house.folder / "search_read").iterdir()) == ["metadata.json", "v1.json"]


@pytest.mark.req("RG-01", "RG-03")
async def test_files_are_rebuilt_from_rows(house: House) -> None:
    """On a machine that has none, the rows give every file as it was."""
    await lively(house)
    folder = house.folder / "search_read"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert await kinds(house) == {("missing", "files")}
    await house.verification.rebuild_files(TENANT)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.req("RG-01")
async def test_files_that_are_older_than_the_rows_do_not_overrule_them(house: House) -> None:
    """A folder from before a retirement cannot undo it; the reason is said."""
    await house.promote()
    metadata = house.folder / "search_read" / "metadata.json"
    old = metadata.read_bytes()
    await house.registry.retire(TENANT, "search_read", RetirementReason.MANUAL, by="ann")
    metadata.write_bytes(old)
    assert await kinds(house) == {("differs", "files")}
    rebuilt = await house.verification.rebuild_rows(TENANT)
    assert rebuilt.tools == ()
    assert "rows are newer" in rebuilt.left["search_read"]
    assert (await house.registry.tool(TENANT, "search_read")).record.is_retired


async def test_newer_files_can_be_taken_in(house: House) -> None:
    """Where the rows were restored from an old backup, the files bring them up to date."""
    await house.promote()
    metadata = house.folder / "search_read" / "metadata.json"
    state = json.loads(metadata.read_text())
    state |= {"revision": 1000, "quarantine": {"reason": "odd", "by": "ann", "at": "2026-02-01T00:00:00Z"}}
    metadata.write_text(json.dumps(state))
    assert (await house.verification.rebuild_rows(TENANT)).tools == ("search_read",)
    tool = await house.registry.tool(TENANT, "search_read")
    assert tool.record.quarantine is not None
    assert tool.record.revision > 1000
    assert await kinds(house) == set()
    assert house.learned.find(TENANT, "search_read") is None


@pytest.mark.req("RG-02", "RG-01")
async def test_the_documented_example_loads_and_runs(house: House) -> None:
    """A definition as the documents show it, its status inline and no metadata beside it, is taken in and called."""
    folder = house.folder / "search_read_summarize"
    folder.mkdir(parents=True)
    (folder / "v2.json").write_bytes(SEED.read_bytes())
    assert (await house.verification.rebuild_rows(TENANT)).tools == ("search_read_summarize",)
    assert (folder / "v2.json").read_bytes() == SEED.read_bytes()
    answer = await house.call("search_read_summarize", {"query": "ravens", "max_length": 11})
    assert answer["result"] == "text of doc"
    assert await kinds(house) == set()


async def test_a_folder_without_metadata_speaks_for_itself(house: House) -> None:
    """Of definitions that carry their own status, the newest in service serves and the older are superseded."""
    folder = house.folder / "search_read"
    folder.mkdir(parents=True)
    for number in (1, 2, 3):
        body = make_definition(version=number, chain_id="somewhere").as_json()
        if number < 3:
            body |= {"status": "promoted", "promoted_at": f"2026-02-0{number}T00:00:00Z"}
        (folder / f"v{number}.json").write_text(json.dumps(body))
    await house.verification.rebuild_rows(TENANT)
    tool = await house.registry.tool(TENANT, "search_read")
    assert tool.record.current_version == 2
    assert [version.is_in_service for version in tool.versions] == [False, True, False]


def broken_json(folder: Path) -> None:
    (folder / "v1.json").write_text("{")


def other_content(folder: Path) -> None:
    body = json.loads((folder / "v1.json").read_text())
    (folder / "v1.json").write_text(json.dumps(body | {"description": "Sends everything elsewhere."}))


def link_to_a_file(folder: Path) -> None:
    (folder / "v1.json").rename(folder.parent / "moved.json")
    (folder / "v1.json").symlink_to(folder.parent / "moved.json")


def link_to_the_system(folder: Path) -> None:
    (folder / "metadata.json").unlink()
    (folder / "metadata.json").symlink_to("/etc/passwd")


def circular_link(folder: Path) -> None:
    (folder / "v1.json").unlink()
    (folder / "v1.json").symlink_to(folder / "v1.json")


def pipe(folder: Path) -> None:
    (folder / "v1.json").unlink()
    os.mkfifo(folder / "v1.json")


def folder_for_a_file(folder: Path) -> None:
    (folder / "v1.json").unlink()
    (folder / "v1.json").mkdir()


def huge(folder: Path) -> None:
    with (folder / "v1.json").open("wb") as file:
        file.truncate(1 << 34)


def deep(folder: Path) -> None:
    (folder / "v1.json").write_text('{"evidence":' + "[" * 100_000 + "]" * 100_000 + "}")


def not_utf8(folder: Path) -> None:
    (folder / "v1.json").write_bytes(b'{"tool_id": "\xff\xfe"}')


def missing_metadata(folder: Path) -> None:
    (folder / "metadata.json").unlink()


def future_format(folder: Path) -> None:
    edit_metadata(folder, format=2)


def edit_metadata(folder: Path, **changes: Any) -> None:
    body = json.loads((folder / "metadata.json").read_text())
    (folder / "metadata.json").write_text(json.dumps(body | changes))


def stray_version(folder: Path) -> None:
    (folder / "v9.json").write_bytes((folder / "v1.json").read_bytes())


def half_written(folder: Path) -> None:
    (folder / ".v2.json.abc.tmp").write_text("{")


UNREADABLE: list[Damage] = [
    broken_json,
    other_content,
    link_to_a_file,
    link_to_the_system,
    circular_link,
    pipe,
    huge,
    deep,
    not_utf8,
    future_format,
    stray_version,
]
DAMAGES: list[Damage] = [*UNREADABLE, missing_metadata, half_written]


@pytest.mark.req("RG-01", "RG-03")
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
async def test_damage_is_found_and_mended_from_the_rows(house: House, damage: Damage) -> None:
    """Whatever was done to a tool's files is reported, serves nobody, and is put right from the rows."""
    await house.promote()
    await house.promote("other", steps=("read", "summarize"))
    damage(house.folder / "search_read")
    found = [each for each in await house.verification.verify(TENANT) if each.tool_id == "search_read"]
    assert found
    assert {each.settled_by for each in found} == {"files"}
    assert await house.call("search_read", {"q": "x"}) is not None
    rebuilt = await house.verification.rebuild_files(TENANT)
    assert rebuilt.left == {}
    assert (house.folder / "search_read" / "v1.json").is_file()
    assert not (house.folder / "search_read" / "v1.json").is_symlink()
    assert [each for each in await kinds(house) if each[0] != "refused"] == []


async def test_a_folder_where_a_file_belongs_is_left_to_people(house: House) -> None:
    """What cannot be removed safely is named, and everything else is put right."""
    await house.promote()
    await house.promote("other", steps=("read", "summarize"))
    folder_for_a_file(house.folder / "search_read")
    missing_metadata(house.folder / "other")
    rebuilt = await house.verification.rebuild_files(TENANT)
    assert (rebuilt.tools, list(rebuilt.left)) == (("other",), ["search_read"])


@pytest.mark.req("RG-01")
@pytest.mark.parametrize("damage", [*UNREADABLE, folder_for_a_file], ids=lambda damage: damage.__name__)
async def test_damaged_files_make_no_rows(house: House, damage: Damage) -> None:
    """A folder that is not what it should be is refused with the reason; the others are taken in."""
    await house.promote()
    await house.promote("other", steps=("read", "summarize"))
    damage(house.folder / "search_read")
    await forget_rows(house)
    rebuilt = await house.verification.rebuild_rows(TENANT)
    assert rebuilt.tools == ("other",)
    assert "search_read" in str(rebuilt.left)
    assert await house.call("other", {"q": "x"}) is not None


HOSTILE_DEFINITIONS: dict[str, dict[str, Any]] = {
    "another name": {"tool_id": "elsewhere"},
    "a path": {"tool_id": "../../etc/cron.d/x"},
    "another version": {"version": 7},
    "a field nobody knows": {"run_as": "root"},
    "steps that are no list": {"steps": {"0": "rm"}},
    "a step that waits for itself": {
        "steps": [
            {"step_index": 0, "tool_id": "search", "input_mapping": {"query": "$.steps[1].output"}},
            {"step_index": 1, "tool_id": "read", "input_mapping": {"url": "$.steps[0].output"}},
        ]
    },
    "a status nobody knows": {"status": "blessed"},
    "no schema": {"parameters": {"type": "nonsense"}},
    "a huge number": {"version": 10**400},
}


@pytest.mark.req("RG-01")
@pytest.mark.parametrize("change", HOSTILE_DEFINITIONS.values(), ids=HOSTILE_DEFINITIONS.keys())
async def test_a_hostile_definition_is_refused_by_its_place(house: House, change: dict[str, Any]) -> None:
    """A definition that is not what its place says, or makes no sense, makes no row; the reason names the file."""
    body = make_definition(chain_id="somewhere").as_json() | {"status": "promoted"} | change
    await place_beside_a_good_one(house, "search_read", json.dumps(body))
    rebuilt = await house.verification.rebuild_rows(TENANT)
    assert rebuilt.tools == ("good",)
    assert "v1.json" in rebuilt.left["search_read"]
    (found,) = await house.verification.verify(TENANT)
    assert (found.kind, found.tool_id) == ("refused", "search_read")


async def place_beside_a_good_one(house: House, name: str, text: str) -> None:
    good = make_definition("good", chain_id="somewhere").as_json() | {"status": "promoted"}
    for folder, content in ((name, text), ("good", json.dumps(good))):
        (house.folder / folder).mkdir(parents=True)
        (house.folder / folder / "v1.json").write_text(content)


@pytest.mark.req("RG-01")
@pytest.mark.parametrize("name", ["UPPER", "new\nline", "with space", "-dash", "é", "a" * 129, "v1.json", "..."])
async def test_a_folder_with_no_tools_name_is_refused(house: House, name: str) -> None:
    """A folder that no tool could have is reported and nothing in it is read; the rest loads."""
    body = make_definition("search_read", chain_id="somewhere").as_json() | {"status": "promoted"}
    await place_beside_a_good_one(house, name, json.dumps(body))
    rebuilt = await house.verification.rebuild_rows(TENANT)
    assert rebuilt.tools == ("good",)
    assert list(rebuilt.left) == [name]


async def test_a_linked_folder_is_refused(house: House, tmp_path: Path) -> None:
    """A folder that is a link leads nowhere, not even to a tool that would be well-formed."""
    body = make_definition("search_read", chain_id="somewhere").as_json() | {"status": "promoted"}
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "v1.json").write_text(json.dumps(body))
    house.folder.mkdir(parents=True)
    (house.folder / "search_read").symlink_to(tmp_path / "outside")
    rebuilt = await house.verification.rebuild_rows(TENANT)
    assert rebuilt.tools == ()
    assert "not followed" in rebuilt.left["search_read"]


async def test_a_linked_folder_takes_no_new_tool(house: House, tmp_path: Path) -> None:
    """Registering never writes through a link."""
    (tmp_path / "outside").mkdir()
    house.folder.mkdir(parents=True)
    (house.folder / "search_read").symlink_to(tmp_path / "outside")
    with pytest.raises(Exception, match="not followed"):
        await house.register()
    assert list((tmp_path / "outside").iterdir()) == []
    assert await house.registry.tools(TENANT) == []


METADATA_LIES: dict[str, dict[str, Any]] = {
    "another tool": {"tool_id": "other"},
    "another tenant": {"tenant_id": "acme"},
    "a current version that is not there": {"current_version": 9},
    "no versions": {"versions": []},
    "versions that are no list": {"versions": {"1": {}}},
    "a reason nobody knows": {"retirement_reason": "boredom"},
    "a negative count": {"invocation_count": -1},
    "a time that is none": {"registered_at": "yesterday"},
    "flags that are none": {"flags": {"drift": 1}},
    "a quarantine without a reason": {"quarantine": {}},
}


@pytest.mark.req("RG-01")
@pytest.mark.parametrize("lie", METADATA_LIES.values(), ids=METADATA_LIES.keys())
async def test_metadata_that_cannot_be_true_is_refused(house: House, lie: dict[str, Any]) -> None:
    """State that contradicts its files or itself makes no rows, and the reason names the file."""
    await house.promote()
    edit_metadata(house.folder / "search_read", **lie)
    await forget_rows(house)
    rebuilt = await house.verification.rebuild_rows(TENANT)
    assert rebuilt.tools == ()
    assert "metadata.json" in rebuilt.left["search_read"]


async def test_two_versions_in_service_are_refused(house: House) -> None:
    """Metadata cannot put two versions into service at once."""
    await house.promote()
    await house.promote(description="Better.")
    folder = house.folder / "search_read"
    versions = json.loads((folder / "metadata.json").read_text())["versions"]
    edit_metadata(folder, versions=[version | {"superseded_at": None} for version in versions])
    await forget_rows(house)
    assert "in service" in (await house.verification.rebuild_rows(TENANT)).left["search_read"]


@pytest.mark.req("RG-01")
async def test_a_strangers_files_are_never_overwritten(house: House) -> None:
    """Registering where somebody's files lie is refused, and they stay as they are."""
    folder = house.folder / "search_read"
    folder.mkdir(parents=True)
    (folder / "v1.json").write_text("mine")
    with pytest.raises(Conflict, match="move it away"):
        await house.register()
    assert (folder / "v1.json").read_text() == "mine"
    assert await house.registry.tools(TENANT) == []
    (folder / "v1.json").unlink()
    await house.registry.register(TENANT, (await house.registry.drafts(TENANT))[0].definition, _verdict())
    (folder / "v2.json").write_text("mine, too")
    with pytest.raises(Conflict, match="move it away"):
        await house.register()
    assert (folder / "v2.json").read_text() == "mine, too"


def _verdict() -> dict[str, Any]:
    return {"passed": True, "equivalence_score": {"mean_similarity": 1.0}}


async def test_where_nothing_can_be_written_nothing_is_registered(house: House) -> None:
    """A version whose file cannot be written has no row either."""
    house.folder.parent.mkdir(parents=True)
    house.folder.write_text("in the way")
    with pytest.raises(UnsafePath, match="not a folder"):
        await house.register()
    assert await house.registry.tools(TENANT) == []


async def test_files_that_cannot_be_written_later_are_written_when_they_can(
    house: House, caplog: pytest.LogCaptureFixture
) -> None:
    """A promotion that is committed stands; its metadata follows as soon as nothing is in the way."""
    await house.register()
    folder = house.folder / "search_read"
    (folder / "metadata.json").unlink()
    (folder / "metadata.json").mkdir()
    record = await house.registry.promote(TENANT, "search_read", by="ann")
    assert record.is_in_service
    assert "will be later" in caplog.text
    assert ("unfinished", "files") in await kinds(house)
    (folder / "metadata.json").rmdir()
    assert await house.registry.recover(TENANT) == ["search_read"]
    assert await kinds(house) == set()


def test_a_definition_reads_as_it_was_written() -> None:
    """The stored text gives the definition back, without the state that changes."""
    definition = make_definition(chain_id="c", description="Grüße, “quoted” \x00 and \ud800 broken")
    text = definition_text(definition)
    assert definition_text(SynthesizedTool.from_json(json.loads(text))) == text
    assert "status" not in json.loads(text)
