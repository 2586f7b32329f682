"""The registry of a home opened from its settings: where files lie, who must approve, and when a tool ends."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.api_homes import make_chain, read, search
from tests.homes import make_home
from tests.registry_kit import make_definition, make_verdict
from twinraven.app import TwinRaven, open_home
from twinraven.foundation.clock import now_micros
from twinraven.foundation.errors import InvalidDefinition, StorageFull
from twinraven.muninn import Outcome
from twinraven.registry import ToolRecord

_HOUR = 3_600_000_000


async def register(
    raven: TwinRaven, tool_id: str = "search_read", *, steps: tuple[str, ...] = ("search", "read")
) -> ToolRecord:
    chain = make_chain()
    await raven.chains.add("default", [chain])
    definition = make_definition(tool_id, steps=steps, chain_id=str(chain.chain_id))
    draft = await raven.registry.draft("default", definition, evidence_hash=str(uuid4()))
    return await raven.registry.register("default", draft.definition, make_verdict())


@pytest.mark.req("RG-07", "RG-15")
@pytest.mark.parametrize(("required", "status"), [(True, "testing"), (False, "promoted")])
async def test_the_home_asks_for_approval_where_its_settings_say_so(
    tmp_path: Path, required: bool, status: str
) -> None:
    """`registry.require_approval` decides whether what passed waits or serves at once."""
    home = make_home(tmp_path, registry={"require_approval": required})
    with open_home(home, functions=[search, read]) as raven:
        assert (await register(raven)).status == status


@pytest.mark.req("RG-07")
async def test_what_cannot_be_called_yet_waits_whatever_the_settings_say(tmp_path: Path) -> None:
    """A tool one of whose steps is not in the catalogue is not promoted at once; once it is there, a person may."""
    home = make_home(tmp_path, registry={"require_approval": False})
    with open_home(home, functions=[search]) as raven:
        assert (await register(raven)).status == "testing"
        with pytest.raises(InvalidDefinition, match="cannot serve yet"):
            await raven.registry.promote("default", "search_read", by="ann")
    with open_home(home, functions=[search, read]) as raven:
        assert (await raven.registry.promote("default", "search_read", by="ann")).status == "promoted"


@pytest.mark.req("RG-11", "RG-15")
async def test_an_unused_tool_ends_after_the_days_of_the_settings(tmp_path: Path) -> None:
    """`registry.auto_retire_after_days` counts from the promotion of a tool that was never called."""
    home = make_home(tmp_path, registry={"require_approval": False, "auto_retire_after_days": 3})
    with open_home(home, functions=[search, read]) as raven:
        await register(raven)
    for hours, expected in ((71, []), (73, ["auto_unused"])):
        late = hours * _HOUR
        with open_home(home, functions=[search, read], micros=lambda late=late: now_micros() + late) as raven:
            report = await raven.maintenance.run("default", dry_run=True)
            assert [action.name for action in report.actions if action.verb == "retire"] == expected


@pytest.mark.req("RG-12", "RG-15")
async def test_a_failure_that_was_stated_counts(tmp_path: Path) -> None:
    """A call that answered and whose caller says that it failed is a failure of the tool; silence is none.

    Nor is what a tool of that name does in another tenant.
    """
    home = make_home(tmp_path, registry={"require_approval": False, "failure_spike_threshold": 0.4})
    with open_home(home, functions=[search, read]) as raven:
        await register(raven)
        other = await raven.tenancy.create_tenant("other")
        with raven.collector.observe("s", tenant_id=other.tenant_id) as session:
            for _ in range(9):
                await session.record("search_read", {"q": "x"}, latency_ms=1, outcome=Outcome.FAILURE)
        ended: list[list[str | None]] = []
        for outcomes in ((), (Outcome.SUCCESS, Outcome.SUCCESS), (Outcome.FAILURE, Outcome.FAILURE)):
            with raven.collector.observe("s") as session:
                for outcome in outcomes:
                    await session.record("search_read", {"q": "x"}, output={}, latency_ms=1, outcome=outcome)
            report = await raven.maintenance.run("default", dry_run=True)
            ended.append([action.name for action in report.actions if action.verb == "retire"])
        await register(raven, "read_search", steps=("read", "search"))
        with raven.collector.observe("s") as session:
            await session.record("read_search", {"q": "x"}, output={}, latency_ms=1, outcome=Outcome.FAILURE)
        report = await raven.maintenance.run("default", dry_run=True)
    assert ended == [[], [], ["failure_spike"]]
    assert ("read_search", "failure_spike") in [(action.tool_id, action.name) for action in report.actions]


@pytest.mark.req("RG-15")
async def test_files_lie_where_the_settings_say(tmp_path: Path) -> None:
    """`registry.storage_dir` is where a home writes the files of its tools, and where it compares them with rows."""
    home = make_home(tmp_path, registry={"storage_dir": "learned/here"})
    with open_home(home, functions=[search, read]) as raven:
        await register(raven)
        assert sorted(path.name for path in (home / "learned/here/search_read").iterdir()) == [
            "metadata.json",
            "v1.json",
        ]
        assert not (home / "tools").exists()
        assert await raven.verification.verify("default") == []
        (home / "learned/here/search_read/v1.json").unlink()
        assert [each.kind for each in await raven.verification.verify("default")] == ["missing"]


@pytest.mark.req("RG-04")
async def test_a_version_without_room_for_its_file_is_not_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full when the file is written refuses the whole version; with room, all of it is there."""
    home = make_home(tmp_path, registry={"require_approval": False})
    folder = home / "tools/generated/search_read"
    with open_home(home, functions=[search, read]) as raven:
        for number in (1, 2):
            with monkeypatch.context() as disk:
                disk.setattr(os, "rename", _refusing(f"v{number}.json"))
                with pytest.raises(StorageFull, match=f"v{number}"):
                    await register(raven)
            versions = [] if number == 1 else await versions_of(raven)
            assert versions == [(1, "promoted")][: number - 1]
            assert sorted(path.name for path in folder.glob("*")) == ["metadata.json", "v1.json"][: 2 * (number - 1)]
            waiting = {draft.definition.version: draft.definition for draft in await raven.registry.drafts("default")}
            await raven.registry.register("default", waiting[number], make_verdict())
            assert (folder / f"v{number}.json").exists()
            assert (await raven.registry.tool("default", "search_read")).record.current_version == number
            assert await raven.verification.verify("default") == []
        assert await versions_of(raven) == [(1, "promoted"), (2, "promoted")]


@pytest.mark.req("RG-03")
async def test_what_one_process_left_unfinished_the_next_act_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that could not follow their rows follow when anything is done to any tool, without being asked to."""
    home = make_home(tmp_path)
    metadata = home / "tools/generated/search_read/metadata.json"
    with open_home(home, functions=[search, read]) as raven:
        await register(raven)
        with monkeypatch.context() as disk:
            disk.setattr(os, "rename", _refusing("metadata.json"))
            await raven.registry.promote("default", "search_read", by="ann")
        assert json.loads(metadata.read_bytes())["status"] == "testing"
    with open_home(home, functions=[search, read]) as raven:
        assert (await register(raven, "read_search", steps=("read", "search"))).tool_id == "read_search"
        assert json.loads(metadata.read_bytes())["status"] == "promoted"
        assert await raven.verification.verify("default") == []


async def versions_of(raven: TwinRaven) -> list[tuple[int, str]]:
    tool = await raven.registry.tool("default", "search_read")
    return [(each.version, each.status) for each in tool.versions]


def _refusing(name: str) -> Any:
    """Put files in their places as the system does, but for one name, for which the disk has no room."""
    rename = os.rename

    def refuse(source: str, target: str, **places: int) -> None:
        if target == name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rename(source, target, **places)

    return refuse
