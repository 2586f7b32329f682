"""Entity tags: a change is made to the version that was seen, or not at all, and says which one is there."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.api_client import Door, Reply
from tests.api_homes import ApiHome, SeededHome, Seeds, made, seeded_home, server_of
from tests.registry_kit import make_definition, make_verdict
from twinraven.api import all_routes
from twinraven.serving.metrics import HttpMetrics

_AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class Change:
    """How one kind of thing is read and changed."""

    group: str
    parameter: str
    suffix: str
    method: str
    part: str
    bodies: tuple[dict[str, Any], dict[str, Any]]
    version: str
    is_required: bool = True

    def target(self, seeds: Seeds) -> str:
        return f"/v1/{self.group}/{seeds.ids[self.group, self.parameter]}{self.suffix}"

    async def send(self, door: Door, target: str, number: int = 0, **headers: str) -> Reply:
        spelt = {name.replace("_", "-"): value for name, value in headers.items()}
        return await door.ask(self.method, f"{target}{self.part}", self.bodies[number], headers=spelt)


CHANGES: Final = {
    "service": Change(
        "services", "service_id", "", "PATCH", "", ({"enabled": False}, {"enabled": True}), "state_version"
    ),
    "tool": Change(
        "tools",
        "tool_id",
        "/definition",
        "PATCH",
        "",
        ({"description": "one"}, {"description": "two"}),
        "state_version",
    ),
    "service template": Change(
        "service-templates", "template_id", "", "PATCH", "", ({"shared": True}, {"shared": False}), "state_version"
    ),
    "tool template": Change(
        "tool-templates", "template_id", "", "PATCH", "", ({"shared": True}, {"shared": False}), "state_version"
    ),
    "secret": Change(
        "secrets",
        "secret_id",
        "",
        "PUT",
        "/value",
        ({"value": "first-value-of-two"}, {"value": "second-value-of-two"}),
        "version",
        is_required=False,
    ),
    "user": Change("users", "user_id", "", "PATCH", "", ({"active": False}, {"active": True}), "state_version"),
    "learned tool": Change(
        "learned-tools", "tool_id", "", "POST", "/quarantine", ({"reason": "a"}, {"reason": "b"}), "revision", False
    ),
}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
async def seeded(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SeededHome]:
    async with seeded_home(tmp_path, server=server_of(request)) as opened:
        yield opened


@pytest.fixture
def home(seeded: SeededHome) -> ApiHome:
    return seeded.home


@pytest.fixture
def seeds(seeded: SeededHome) -> Seeds:
    return seeded.ada


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_stale_change_is_refused_with_the_current_version(seeds: Seeds, kind: str) -> None:
    """What was changed meanwhile stays as it is: 412, and the details say which version is there."""
    change = CHANGES[kind]
    target = change.target(seeds)
    seen = await seeds.door.get(target)
    made(await change.send(seeds.door, target, 0, If_Match=seen.tag))
    now = await seeds.door.get(target)
    assert now.tag != seen.tag
    stale = await change.send(seeds.door, target, 1, If_Match=seen.tag)
    assert (stale.status, stale.json()["code"], stale.json()["retryable"]) == (412, "OCC_CONFLICT", False)
    assert stale.json()["details"]["current"] == now.json()[change.version]
    assert stale.json()["details"]["expected"] == seen.json()[change.version]
    assert (await seeds.door.get(target)).body == now.body


@pytest.mark.parametrize("kind", CHANGES)
async def test_of_many_who_saw_the_same_version_one_changes_it(seeds: Seeds, kind: str) -> None:
    """Thirty-two changes under one tag at once: one is made, the others are told the version it made."""
    change = CHANGES[kind]
    target = change.target(seeds)
    seen = await seeds.door.get(target)
    replies = await asyncio.gather(*(change.send(seeds.door, target, 0, If_Match=seen.tag) for _ in range(_AT_ONCE)))
    assert Counter(reply.status for reply in replies) == {200: 1, 412: _AT_ONCE - 1}
    now = (await seeds.door.get(target)).json()[change.version]
    assert now > seen.json()[change.version]
    for reply in replies:
        if reply.status == 412:
            assert reply.json()["details"]["current"] == now


@pytest.mark.parametrize("kind", CHANGES)
async def test_a_change_says_which_version_it_means(seeds: Seeds, kind: str) -> None:
    """Without If-Match: 428 where it is required; `*` is any version; a tag that was never given is none."""
    change = CHANGES[kind]
    target = change.target(seeds)
    before = await seeds.door.get(target)
    for odd in ('"0"', '"nonsense"', 'W/"1"', f"W/{before.tag}", '"0", "zzz"', '""', '"99999999999999999999"', '"-1"'):
        refused = await change.send(seeds.door, target, 0, If_Match=odd)
        assert (refused.status, refused.json()["details"]["current"]) == (412, before.json()[change.version]), odd
    for broken in ("1", '"1" "2"', '"1', "", "**", '*, "1"'):
        refused = await change.send(seeds.door, target, 0, If_Match=broken)
        assert (refused.status, refused.json()["details"]["field"]) == (400, "If-Match"), broken
    missing = await change.send(seeds.door, target, 0)
    if change.is_required:
        assert (missing.status, missing.json()["code"]) == (428, "PRECONDITION_REQUIRED")
        made(await change.send(seeds.door, target, 0, If_Match="*"))
    else:
        made(missing)


@pytest.mark.parametrize("kind", CHANGES)
async def test_who_has_the_current_version_is_not_sent_it_again(seeds: Seeds, kind: str) -> None:
    """If-None-Match with the current tag, alone, among others or weak, answers 304 and nothing; another tag 200."""
    change = CHANGES[kind]
    target = change.target(seeds)
    seen = await seeds.door.get(target)
    for known in (seen.tag, f'"x", {seen.tag}', f"W/{seen.tag}", "*"):
        unchanged = await seeds.door.get(target, If_None_Match=known)
        assert (unchanged.status, unchanged.body, unchanged.tag) == (304, b"", seen.tag)
    made(await change.send(seeds.door, target, 0, If_Match="*"))
    assert (await seeds.door.get(target, If_None_Match=seen.tag)).status == 200


async def test_what_changes_without_an_edit_is_seen_and_spoils_no_edit(home: ApiHome, seeds: Seeds) -> None:
    """A health check makes another tag, so that who polls learns of it; the tag before it still opens an edit."""
    target = f"/v1/services/{seeds.ids['services', 'service_id']}"
    seen = await seeds.door.get(target)
    checked = await seeds.door.post(f"{target}/checks")
    assert checked.json()["last_health_check"] is not None
    assert (await seeds.door.get(target, If_None_Match=seen.tag)).status == 200
    made(await seeds.door.patch(target, {"enabled": False}, If_Match=seen.tag))
    secret = f"/v1/secrets/{seeds.ids['secrets', 'secret_id']}"
    named = await seeds.door.get(secret)
    made(await seeds.door.patch(secret, {"name": "renamed"}))
    assert (await seeds.door.get(secret, If_None_Match=named.tag)).json()["name"] == "renamed"


async def test_a_step_in_a_learned_tools_life_needs_the_revision_that_was_seen(seeds: Seeds) -> None:
    """Promotion under another name, rollback, retirement and release: stale is 412, nothing said is 428."""
    target = f"/v1/learned-tools/{seeds.ids['learned-tools', 'tool_id']}"
    seen = await seeds.door.get(target)
    made(await seeds.door.post(f"{target}/quarantine", {"reason": "look"}, If_Match=seen.tag))
    steps: dict[str, Any] = {
        "promote": {"as": "another-name"},
        "rollback": {"to_version": 1},
        "retire": {},
        "release": None,
        "reject": {"reason": "no"},
    }
    current = (await seeds.door.get(target)).json()["revision"]
    for step, body in steps.items():
        stale = await seeds.door.post(f"{target}/{step}", body, If_Match=seen.tag)
        assert (stale.status, stale.json()["details"]["current"]) == (412, current), step
        assert (await seeds.door.post(f"{target}/{step}", body)).status == 428, step
    released = await seeds.door.post(f"{target}/release", If_Match=(await seeds.door.get(target)).tag)
    assert (released.status, released.json()["status"]) == (200, "promoted")


@pytest.mark.req("TR-15")
async def test_a_tool_that_is_not_promoted_is_not_renamed(home: ApiHome, seeds: Seeds) -> None:
    """`as` takes effect with the promotion: where that fails the tool keeps its name, its revision and its files."""
    definition = make_definition("fresh_one", chain_id=seeds.ids["chains", "chain_id"], steps=("search", "search"))
    draft = await home.raven.registry.draft(seeds.tenant_id, definition, evidence_hash="fresh")
    await home.raven.registry.register(seeds.tenant_id, draft.definition, make_verdict())
    target = f"/v1/learned-tools/{draft.definition.tool_id}"
    seen = await seeds.door.get(target)
    refused = await seeds.door.post(f"{target}/promote", {"as": "other_name", "version": 99}, If_Match=seen.tag)
    assert refused.status == 404
    assert (await seeds.door.get(target)).tag == seen.tag
    assert (await seeds.door.get("/v1/learned-tools/other_name")).status == 404
    promoted = made(await seeds.door.post(f"{target}/promote", {"as": "other_name"}, If_Match=seen.tag))
    assert (promoted["tool_id"], promoted["status"]) == ("other_name", "promoted")
    assert (await seeds.door.get(target)).status == 404


async def test_a_secret_is_renamed_and_deleted_as_it_was_seen(seeds: Seeds) -> None:
    """If-Match is not passed over where it may be left out: a tag from before a rotation changes nothing."""
    target = f"/v1/secrets/{seeds.ids['secrets', 'secret_id']}"
    seen = await seeds.door.get(target)
    now = made(await seeds.door.put(f"{target}/value", {"value": "another-long-value"}))
    for stale in (
        await seeds.door.patch(target, {"name": "renamed"}, If_Match=seen.tag),
        await seeds.door.delete(target, If_Match=seen.tag),
    ):
        assert (stale.status, stale.json()["details"]["current"]) == (412, now["version"])
    assert (await seeds.door.delete(target, If_Match=(await seeds.door.get(target)).tag)).status == 204


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_secret_that_is_rotated_in_the_meantime_is_left_alone(
    home: ApiHome, seeds: Seeds, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """The version is compared where the change is made: a rotation that comes before it, however late, is seen."""
    secret_id = seeds.ids["secrets", "secret_id"]
    target = f"/v1/secrets/{secret_id}"
    seen = await seeds.door.get(target)
    vault = home.raven.vault

    def late(change: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def changing(*arguments: Any, **facts: Any) -> Any:
            await vault.rotate(seeds.tenant_id, seeds.user_id, secret_id, "another-long-value")
            return await change(*arguments, **facts)

        return changing

    monkeypatch.setattr(vault, "update", late(vault.update))
    monkeypatch.setattr(vault, "delete", late(vault.delete))
    body = {"name": "renamed"} if method == "PATCH" else None
    stale = await seeds.door.ask(method, target, body, headers={"if-match": seen.tag})
    assert (stale.status, stale.json()["details"]["current"]) == (412, 2)
    assert (await seeds.door.get(target)).json()["name"] == "ada-secret"


async def test_deleting_needs_the_version_that_was_seen(seeds: Seeds) -> None:
    """A stale deletion deletes nothing; with the current tag it is gone."""
    routes = [route for route in all_routes(HttpMetrics()) if route.method == "DELETE" and route.matching == "must"]
    assert len(routes) == 4
    for route in sorted(routes, key=lambda each: each.tag != "tools"):
        path = seeds.path_of(route)
        assert (await seeds.door.delete(path, If_Match='"7"')).status == 412
        assert (await seeds.door.delete(path)).status == 428
        assert (await seeds.door.delete(path, If_Match=(await seeds.door.get(path)).tag)).status == 204
        again = await seeds.door.get(path)
        assert again.status == 404 or again.json()["archived"] is True
