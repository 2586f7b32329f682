"""What an exported function may need at run time, written to be copied into it.

An export depends on nothing but Python, so it carries the pieces of this module that it uses, and no others. They say
again, in as little code as possible, what the executor does; property tests hold the two together. `runtime_steps` has
the rest, for definitions that need more than a line a step.
"""

# Narrowed JSON has no types, and a reader of an export is better off without casts.
# Whatever a caller's `call` raises is a failure.
# ruff: noqa: BLE001
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]

LEFT_OUT: Any = object()

# Trying these again unchanged gives the same answer, or does what must not be done twice.
FINAL = {
    "VALIDATION_FAILED",
    "SCHEMA_INVALID",
    "DEFINITION_INVALID",
    "NOT_FOUND",
    "POLICY_VIOLATION",
    "APPROVAL_PENDING",
    "APPROVAL_DENIED",
    "IDEMPOTENCY_CONFLICT",
    "EFFECT_UNKNOWN",
}


def at(value: Any, *path: str | int) -> Any:
    """What lies at a path inside a JSON value, or None where there is nothing."""
    for key in path:
        if isinstance(value, dict):
            value = value.get(str(key))
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            return None
    return value


def known(value: Any) -> Any:
    """A parameter, or None if the caller left it out."""
    return None if value is LEFT_OUT else value


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments without those that the caller left out."""
    return {name: value for name, value in arguments.items() if value is not LEFT_OUT}


def as_text(value: Any) -> str | None:
    """A value as text: texts as they are, anything else as compact JSON."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(plain_numbers(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def plain_numbers(value: Any) -> Any:
    """The value with whole floating-point numbers as integers, as JSON's canonical form writes them."""
    if isinstance(value, dict):
        return {key: plain_numbers(member) for key, member in value.items()}
    if isinstance(value, list):
        return [plain_numbers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e21 else value


def as_integer(value: Any) -> int | None:
    """A value as an integer, or None if it is none."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    if isinstance(value, str):
        return int(value) if re.fullmatch(r"[+-]?[0-9]{1,30}", value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def affix(before: str, value: Any, after: str) -> str | None:
    """Text around a value, or None if there is no value."""
    text = as_text(value)
    return None if text is None else before + text + after


def part(value: Any, separator: str, index: int) -> str | None:
    """One piece of a text, or None if there is no such piece."""
    pieces = value.split(separator) if isinstance(value, str) else []
    return pieces[index] if -len(pieces) <= index < len(pieces) else None


def holds(value: Any) -> bool:
    """Whether a bare value counts as true."""
    return value is not None and value is not False and value != 0 and not is_hollow(value)


def is_hollow(value: Any) -> bool:
    """Whether this is an empty text, list or object."""
    return isinstance(value, (str, list, dict)) and not value


def is_empty(value: Any) -> bool:
    """Whether there is nothing here."""
    return value is None or is_hollow(value)


def length(value: Any) -> int | None:
    """The size of a text, list or object."""
    return len(value) if isinstance(value, (str, list, dict)) else None


def is_number(value: Any) -> bool:
    """Whether this is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def equal(one: Any, other: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, true does not equal 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if isinstance(one, str) or is_number(one):
        return comparable(one, other) and one == other
    return one is other


def comparable(one: Any, other: Any) -> bool:
    """Whether the two have an order: both texts or both numbers."""
    return (isinstance(one, str) and isinstance(other, str)) or (is_number(one) and is_number(other))


def less(one: Any, other: Any) -> bool:
    """Whether one comes before the other."""
    return comparable(one, other) and one < other


def at_most(one: Any, other: Any) -> bool:
    """Whether one comes before the other or is the same."""
    return comparable(one, other) and one <= other


def contains(whole: Any, member: Any) -> bool:
    """Whether a list has the member, a text the piece, an object the key."""
    if isinstance(whole, list):
        return any(equal(member, item) for item in whole)
    return isinstance(whole, (str, dict)) and isinstance(member, str) and member in whole


class OutOfTime(Exception):
    """A tool did not answer in time; if it writes, nobody knows whether it took effect."""

    def __init__(self, tool: str, seconds: float, *, writes: bool) -> None:
        self.code = "EFFECT_UNKNOWN" if writes else "TOOL_TIMEOUT"
        self.retryable = not writes
        self.details = {"tool_id": tool}
        ending = "; whether it took effect is unknown" if writes else ""
        super().__init__(f"{tool!r} did not answer within {round(seconds * 1000)} ms{ending}")


async def in_time(call: Call, tool: str, arguments: dict[str, Any], seconds: float, *, writes: bool) -> Any:
    """Call a tool that has to answer within so many seconds."""
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await call(tool, arguments)
    except TimeoutError:
        if not limit.expired():
            raise
        raise OutOfTime(tool, seconds, writes=writes) from None


async def retried(attempt: Callable[[], Awaitable[Any]], waits: list[float], *, writes: bool) -> Any:
    """Make a call, and make it again after each wait while it fails and a repetition can do no harm."""
    for wait in waits:
        try:
            return await attempt()
        except Exception as error:
            if not may_repeat(error, writes=writes):
                raise
        await asyncio.sleep(wait)
    return await attempt()


def may_repeat(error: Exception, *, writes: bool) -> bool:
    """Whether a failed call may be made again: a write only if its error says that nothing happened."""
    return getattr(error, "retryable", False) or (not writes and getattr(error, "code", "") not in FINAL)


class NotListed(ValueError):
    """There is no list to go through, or it is too long."""

    code = "VALIDATION_FAILED"


def listed(items: Any, most: int) -> list[Any]:
    """The elements to work on; None is an empty list."""
    if items is None:
        return []
    if not isinstance(items, list):
        raise NotListed("what this step goes through is not a list")
    if len(items) > most:
        raise NotListed(f"the list has {len(items)} items, and this step takes {most} at most")
    return items


async def for_each(items: list[Any], work: Callable[[Any], Awaitable[Any]], *, at_once: int = 8) -> list[Any]:
    """The results of the work on every item, in order, with so many under way at once."""
    results: list[Any] = [None] * len(items)
    queue = iter(enumerate(items))

    async def worker() -> None:
        for number, item in queue:
            results[number] = await work(item)

    await together(*[worker() for _ in range(min(at_once, len(items)))])
    return results


async def tried(tool: str, attempt: Callable[[], Awaitable[Any]], incomplete: list[Any], *, fatal: bool = False) -> Any:
    """The answer of a call; one that fails gives None and is told in `incomplete`, unless a failure is fatal."""
    try:
        return await attempt()
    except Exception as error:
        if fatal:
            raise
        incomplete.append({"tool_id": tool, "status": "failed", "error": told(error)})
        return None


async def tried_each(
    tool: str,
    items: Any,
    work: Callable[[Any], Awaitable[Any]],
    incomplete: list[Any],
    *,
    most: int,
    at_once: int = 8,
    fatal: bool = False,
) -> list[Any] | None:
    """The answers for every item, None where a call failed; the first failure is told, unless a failure is fatal."""
    errors: dict[int, Exception] = {}
    limit = asyncio.Semaphore(at_once)

    async def attempt(number: int, item: Any) -> Any:
        async with limit:
            try:
                return None if fatal and errors else await work(item)
            except Exception as error:
                errors[number] = error

    try:
        answers = await asyncio.gather(*[attempt(number, item) for number, item in enumerate(listed(items, most))])
    except NotListed as error:
        answers, errors[0] = None, error
    if errors and fatal:
        raise next(iter(errors.values()))
    if errors:
        status = "ran" if answers and len(errors) < len(answers) else "failed"
        incomplete.append({"tool_id": tool, "status": status, "error": told(errors[min(errors)])})
    return answers


def told(error: Exception) -> dict[str, Any]:
    """A failure as JSON."""
    return {
        "code": getattr(error, "code", "TOOL_FAILED"),
        "message": str(error),
        "retryable": getattr(error, "retryable", False),
        "details": getattr(error, "details", {}),
    }


async def together(*calls: Awaitable[Any]) -> list[Any]:
    """The answers of calls made at once; the first failure cancels the others."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await cancelled(tasks)


async def cancelled(tasks: Sequence[asyncio.Future[Any]]) -> None:
    """Cancel what still runs and wait for its end."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
