"""Idempotency keys on both stores: one effect for one key, whoever asks and however often."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from twinraven.calls import Claims, EffectWord
from twinraven.calls.claims import GRACE_MS, Claim, EarlierAnswer
from twinraven.foundation.errors import (
    CallInProgress,
    IdempotencyConflict,
    IllegalTransition,
    NotFound,
    StorageUnavailable,
)
from twinraven.storage import Database, Work

TENANT = "default"
RACERS = 16


class Clock:
    """Time that stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now

    def pass_ms(self, milliseconds: int) -> None:
        self.now += milliseconds * 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def claims(database: Database, clock: Clock) -> Claims:
    return Claims(database, micros=clock)


async def take(claims: Claims, key: str, *, tool_id: str = "refund", body: bytes = b"{}") -> Claim | EarlierAnswer:
    return await claims.claim(TENANT, key, tool_id=tool_id, body=body, timeout_ms=1_000)


async def win(claims: Claims, key: str) -> Claim:
    taken = await take(claims, key)
    assert isinstance(taken, Claim)
    return taken


@pytest.mark.req("CH-16")
async def test_of_many_racers_one_wins(claims: Claims) -> None:
    """Whoever asks at the same time, one is given the key and the others are told that it is running."""
    results = await asyncio.gather(*(take(claims, "k") for _ in range(RACERS)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["CallInProgress"] * (RACERS - 1) + ["Claim"]


@pytest.mark.req("CH-16")
async def test_a_settled_key_answers_for_ever(claims: Claims) -> None:
    """Success, failure and not knowing are kept, with answers of any shape."""
    answers: list[tuple[Any, dict[str, Any]]] = [
        ("success", {"output": {"n": 2**70, "text": "a\0b"}}),
        ("success", {"output": None}),
        ("failed", {"error": {"code": "TOOL_FAILED", "message": "no"}}),
        ("unknown", {"error": {"code": "EFFECT_UNKNOWN", "message": "?"}}),
    ]
    for number, (state, response) in enumerate(answers):
        await claims.settle(await win(claims, f"k{number}"), state, response)
        for _ in range(2):
            assert await take(claims, f"k{number}") == EarlierAnswer(state, response)
    late: dict[str, Any] = {"error": {"code": "LATE"}}
    for number, (state, response) in enumerate(answers[:3]):
        await claims.database.write(
            TENANT, lambda tx, key=f"k{number}": claims.conclude(tx, TENANT, key, "failed", late)
        )
        assert await take(claims, f"k{number}") == EarlierAnswer(state, response)


async def test_an_answer_as_deep_as_json_goes_can_be_settled(claims: Claims) -> None:
    """The wrapping of an answer does not make it too deep to be kept."""
    output: Any = 1
    for _ in range(254):
        output = [output]
    await claims.settle(await win(claims, "k"), "success", {"output": output})
    assert await take(claims, "k") == EarlierAnswer("success", {"output": output})


@pytest.mark.req("CH-16")
async def test_another_body_under_the_same_key_is_refused(claims: Claims) -> None:
    """A key means one request: other arguments or another tool are refused, running or settled."""
    claim = await win(claims, "k")
    for _ in range(2):
        with pytest.raises(IdempotencyConflict):
            await take(claims, "k", body=b'{"other":1}')
        with pytest.raises(IdempotencyConflict):
            await take(claims, "k", tool_id="other")
        await claims.settle(claim, "success", {"output": 1})


@pytest.mark.req("CH-16")
async def test_a_released_key_can_be_taken_again(claims: Claims) -> None:
    """A failure that may be tried again frees the key, for the same body as for another."""
    await claims.release(await win(claims, "k"))
    assert isinstance(await take(claims, "k", body=b'{"other":1}'), Claim)


@pytest.mark.req("CH-16")
async def test_a_lost_owner_leaves_an_unknown_effect(claims: Claims, clock: Clock) -> None:
    """A key whose owner said nothing in its time is unknown, not free; if the owner speaks after all, it knows best."""
    lost = await win(claims, "k")
    clock.pass_ms(1_000 + GRACE_MS - 1)
    with pytest.raises(CallInProgress):
        await take(claims, "k")
    clock.pass_ms(2)
    earlier = await take(claims, "k")
    assert isinstance(earlier, EarlierAnswer)
    assert (earlier.state, earlier.response["error"]["code"]) == ("unknown", "EFFECT_UNKNOWN")
    await claims.settle(lost, "success", {"output": 1})
    assert await take(claims, "k") == EarlierAnswer("success", {"output": 1})


async def test_a_claim_nobody_knows_about_is_withdrawn(
    database: Database, claims: Claims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit that was lost on its way back leaves no key behind that only a person could free: nothing was sent."""
    write = database.write
    lost = [True]

    async def lose_once(tenant_id: str, work: Work[Any]) -> Any:
        answer = await write(tenant_id, work)
        if lost and lost.pop():
            raise StorageUnavailable("the connection was lost during COMMIT", commit="unknown")
        return answer

    monkeypatch.setattr(database, "write", lose_once)
    with pytest.raises(StorageUnavailable):
        await take(claims, "k")
    assert isinstance(await take(claims, "k"), Claim)


async def test_secrets_are_looked_for_off_the_loop(database: Database) -> None:
    """What is kept under a key is cleaned on the store's thread, because cleaning may ask the store."""
    threads: list[threading.Thread] = []

    def redact(tenant_id: str, text: bytes) -> bytes:
        threads.append(threading.current_thread())
        return text.replace(b"hunter2hunter2", b"[secret:1]")

    claims = Claims(database, redact=redact)
    await claims.settle(await win(claims, "k"), "success", {"output": "hunter2hunter2"})
    assert threads
    assert threading.current_thread() not in threads
    assert await take(claims, "k") == EarlierAnswer("success", {"output": "[secret:1]"})


@pytest.mark.tenants("a", "b")
@pytest.mark.req("CH-16")
async def test_tenants_have_keys_of_their_own(claims: Claims) -> None:
    """The same key of two tenants is two keys."""
    for tenant in ("a", "b"):
        taken = await claims.claim(tenant, "k", tool_id="t", body=b"{}", timeout_ms=1_000)
        assert isinstance(taken, Claim)


async def _take_in(claims: Claims, epoch: int, *, takes_key: bool = False) -> Claim | EarlierAnswer:
    return await claims.claim(
        TENANT, "run:1", tool_id="refund", body=b"{}", timeout_ms=60_000, epoch=epoch, takes_key=takes_key
    )


@pytest.mark.req("CH-16")
async def test_a_claim_of_a_lost_epoch_is_sent_again_where_the_tool_takes_keys(claims: Claims) -> None:
    """The next epoch takes the claim over at once, and the one before cannot overwrite its answer."""
    lost = await _take_in(claims, 1)
    assert isinstance(lost, Claim)
    taken = await _take_in(claims, 2, takes_key=True)
    assert isinstance(taken, Claim)
    await claims.settle(lost, "failed", {"error": {"code": "LATE"}})
    await claims.settle(taken, "success", {"output": 1})
    assert await _take_in(claims, 3, takes_key=True) == EarlierAnswer("success", {"output": 1})


@pytest.mark.req("CH-16")
async def test_an_unknown_effect_is_asked_about_again_where_the_tool_takes_keys(claims: Claims, clock: Clock) -> None:
    """Whoever calls again under the key takes it over, one at a time; what is settled or still in time stays."""

    async def again() -> Claim | EarlierAnswer:
        return await claims.claim(TENANT, "k", tool_id="refund", body=b"{}", timeout_ms=1_000, takes_key=True)

    first = await win(claims, "k")
    with pytest.raises(CallInProgress):
        await again()
    clock.pass_ms(1_000 + GRACE_MS + 1)
    results = await asyncio.gather(*(again() for _ in range(4)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["CallInProgress"] * 3 + ["Claim"]
    (second,) = [result for result in results if isinstance(result, Claim)]
    await claims.settle(first, "success", {"output": "late"})
    await claims.settle(second, "unknown", {"error": {"code": "EFFECT_UNKNOWN", "message": "?"}})
    assert await take(claims, "k") == EarlierAnswer("unknown", {"error": {"code": "EFFECT_UNKNOWN", "message": "?"}})
    with pytest.raises(IdempotencyConflict):
        await claims.claim(TENANT, "k", tool_id="refund", body=b"[]", timeout_ms=1_000, takes_key=True)
    third = await again()
    assert isinstance(third, Claim)
    await claims.settle(third, "success", {"output": 1})
    assert await again() == EarlierAnswer("success", {"output": 1})


@pytest.mark.req("CH-16")
async def test_a_claim_of_a_lost_epoch_is_unknown_at_once_where_the_tool_takes_none(claims: Claims) -> None:
    """Nobody waits out the time of a claim whose worker lost the run; if it speaks after all, its word counts."""
    lost = await _take_in(claims, 1)
    assert isinstance(lost, Claim)
    with pytest.raises(CallInProgress):
        await _take_in(claims, 1)
    answer = await _take_in(claims, 2)
    assert isinstance(answer, EarlierAnswer)
    assert answer.state == "unknown"
    assert answer.response["error"]["details"] == {"idempotency_key": "run:1"}
    await claims.settle(lost, "success", {"output": 7})
    assert await _take_in(claims, 3) == EarlierAnswer("success", {"output": 7})


@pytest.mark.req("CH-16", "CH-20")
async def test_a_person_says_what_became_of_an_unknown_effect(claims: Claims, database: Database) -> None:
    """It happened with an answer, or it did not and the key is free; nothing else can be resolved."""

    async def resolve(word: EffectWord, output: Any = None) -> None:
        await database.write(TENANT, lambda tx: claims.resolve(tx, TENANT, "run:1", word, output=output))

    with pytest.raises(NotFound):
        await resolve("happened")
    lost = await _take_in(claims, 1)
    assert isinstance(lost, Claim)
    with pytest.raises(IllegalTransition):
        await resolve("happened", 1)
    assert isinstance(await _take_in(claims, 2), EarlierAnswer)
    await resolve("give_up")
    await resolve("did_not_happen")
    again = await _take_in(claims, 2)
    assert isinstance(again, Claim)
    await claims.settle(again, "unknown", {"error": {"code": "EFFECT_UNKNOWN"}})
    await resolve("happened", {"n": 1})
    await claims.settle(again, "failed", {"error": {"code": "LATE"}})
    assert await _take_in(claims, 3) == EarlierAnswer("success", {"output": {"n": 1}})
