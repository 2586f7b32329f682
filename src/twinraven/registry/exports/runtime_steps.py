"""Steps and their run, for exports that branch, fall back or watch for conditions to stop at.

Like `runtime`, this is written to be copied: an export that needs a `Run` carries it, in the shape it has here.
"""

# An export meets whatever its caller's `call` raises, and a step says by name what it is.
# ruff: noqa: BLE001, PLR0913

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from twinraven.registry.exports.runtime import (
    Call,
    NotListed,
    at,
    cancelled,
    for_each,
    in_time,
    listed,
    may_repeat,
    told,
)


class Stopped(Exception):
    """A step failed, nothing stood in for it, and the rest was not run."""


class Halted(Exception):
    """Another step stopped the run before this call was made."""


class Step:
    """One call of a tool, or one for each element of a list, and what to do when it fails."""

    def __init__(
        self,
        tool: str,
        inputs: Callable[..., dict[str, Any]],
        *,
        writes: bool,
        when: Callable[..., bool] | None = None,
        each: Callable[[], Any] | None = None,
        most: int = 0,
        timeout: float | None = None,
        waits: list[float] | None = None,
        fallback: list[Step] | None = None,
        skips: bool = False,
        after: set[int] | None = None,
    ) -> None:
        self.tool = tool
        self.inputs = inputs
        self.writes = writes
        self.when = when
        self.each = each
        self.most = most
        self.timeout = timeout
        self.waits = waits or []
        self.fallback = fallback or []
        self.skips = skips
        self.after = after
        self.errors: dict[int, Exception] = {}
        self.sent: dict[int, Any] = {}
        self.rescued = self.lost = self.writing = 0
        self.seen: dict[str, Any] = {"input": None, "output": None, "status": "not_run", "error": None}
        self.settled = False

    def settle(self, status: str, output: Any = None) -> None:
        """Decide what came of it, unless that was done."""
        if not self.settled:
            self.settled = True
            sent = [self.sent[item] for item in sorted(self.sent)]
            self.seen |= {"status": status, "output": output, "input": sent if self.each else self.sent.get(0)}

    def outcome(self, calls: int) -> str:
        """The word for what came of so many calls."""
        if self.lost and self.lost == calls:
            return "failed"
        return "fallback" if self.rescued else "ran"

    def fail(self, item: int, error: Exception) -> None:
        """Remember that a call failed for good; the first element's failure is the step's."""
        self.errors[item] = error
        first = self.errors[min(self.errors)]
        self.seen["status"] = "failed"
        self.seen["error"] = told(first)


class Run:
    """Runs steps, each when those before it have ended, and applies what they say about failures."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.steps: list[Step] = []
        self.wired: dict[str, dict[str, Any]] = {}
        self.wires: list[tuple[str, str, set[int], Callable[[], Any]]] = []
        self.aborts: list[tuple[set[int], Callable[[], bool]]] = []
        self.stop: Stopped | None = None

    def seen(self, step: int, *path: str | int) -> Any:
        """What a step was given, gave, or came to."""
        return at(self.steps[step].seen, *path)

    def wire(self, step: int | None = None) -> None:
        """Bring the named values up to date that depend on a step, or those that depend on none."""
        for key, name, needs, value in self.wires:
            if (not needs) if step is None else step in needs:
                self.wired.setdefault(key, {})[name] = value()

    async def finish(self) -> None:
        """Run every step; steps that need not wait for each other run side by side."""
        self.wire()
        waiting, ended = list(range(len(self.steps))), set[int]()
        running: dict[asyncio.Future[None], int] = {}
        try:
            while waiting or running:
                ready = [number for number in waiting if self.is_ready(number, ended)]
                waiting = [number for number in waiting if number not in ready]
                running |= {asyncio.ensure_future(self.run_step(number)): number for number in ready}
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=running.__getitem__):
                    task.result()
                    ended.add(running.pop(task))
        except (Stopped, Halted) as error:
            await self.let_writes_finish(running)
            raise self.stop or error from (self.stop or error).__cause__
        finally:
            await cancelled(list(running))

    def is_ready(self, number: int, ended: set[int]) -> bool:
        """Whether all steps that this one waits for have ended."""
        after = self.steps[number].after
        return (set(range(number)) if after is None else after) <= ended

    async def let_writes_finish(self, running: dict[asyncio.Future[None], int]) -> None:
        """Cancel reads; an interrupted write is one that nobody knows the end of."""
        for task, number in running.items():
            if not self.steps[number].writing:
                task.cancel()
        if running:
            await asyncio.wait(running)

    async def run_step(self, number: int) -> None:
        """Run one step to its end."""
        step = self.steps[number]
        try:
            if step.when is not None and not step.when():
                step.settle("skipped")
            elif step.each is None:
                output = await self.perform(number, None, 0)
                step.settle(step.outcome(1), output)
            else:
                await self.run_each(number, step.each())
            self.wire(number)
            if step.errors:
                self.check_aborts(step)
        except Stopped as stopped:
            self.stop = self.stop or stopped
            step.settle("failed")
            raise

    async def run_each(self, number: int, items: Any) -> None:
        """Run a step for every element; effects keep their order, only reads overlap."""
        step = self.steps[number]
        try:
            numbered = list(enumerate(listed(items, step.most)))
        except NotListed as error:
            await self.recover(number, None, 0, error, fallback=[])
            step.settle("failed")
            return
        work = for_each(numbered, lambda pair: self.perform(number, pair[1], pair[0]), at_once=1 if step.writes else 8)
        outputs = await work
        step.settle(step.outcome(len(numbered)), outputs)

    async def perform(self, number: int, item: Any, place: int) -> Any:
        """The output of one call, or what stands in for it."""
        step = self.steps[number]
        arguments = step.sent[place] = step.inputs(item)
        waits = iter(step.waits)
        while True:
            try:
                return await self.attempt(step, step, arguments)
            except Halted:
                raise
            except Exception as error:
                wait = next(waits, None)
                if wait is None or self.stop or not may_repeat(error, writes=step.writes):
                    return await self.recover(number, item, place, error, fallback=step.fallback)
            await asyncio.sleep(wait)

    async def attempt(self, owner: Step, step: Step, arguments: dict[str, Any]) -> Any:
        """One call, in its time."""
        if self.stop:
            raise Halted
        owner.writing += step.writes
        try:
            if step.timeout is None:
                return await self.call(step.tool, arguments)
            return await in_time(self.call, step.tool, arguments, step.timeout, writes=step.writes)
        finally:
            owner.writing -= step.writes

    async def recover(self, number: int, item: Any, place: int, error: Exception, *, fallback: list[Step]) -> Any:
        """What stands in for the output of a call that failed for good; stops the run if nothing may."""
        step, addition = self.steps[number], ""
        step.fail(place, error)
        self.check_aborts(step)
        if fallback:
            try:
                output = await self.fall_back(step, item)
                step.rescued += 1
                return output
            except Halted:
                raise
            except Exception as second:
                addition = f"; its fallback failed too: {second}"
        if addition or not step.skips:
            step.settle("failed")
            self.check_aborts(step)
            raise Stopped(f"step {number} ({step.tool}) failed: {error}{addition}") from error
        step.lost += 1
        return None

    async def fall_back(self, owner: Step, item: Any) -> Any:
        """Run the steps that stand in, one after another; the last one's output is the answer."""
        results: list[dict[str, Any]] = []
        output = None
        for step in owner.fallback:
            if step.when is not None and not step.when(item, results):
                results.append({"output": None})
                continue
            output = await self.attempt(owner, step, step.inputs(item, results))
            results.append({"output": output})
        return output

    def check_aborts(self, step: Step) -> None:
        """Stop if a condition holds; one that asks for an output waits until that is known."""
        for asked, condition in self.aborts:
            if all(self.steps[number].settled for number in asked) and condition():
                error = step.errors[min(step.errors)]
                raise Stopped(f"aborted after {step.tool} failed: {error}") from error

    def everything(self) -> dict[str, Any]:
        """What all steps gave, and which of them did not do what they were there for."""
        *earlier, last = self.steps
        output = {
            "result": last.seen["output"],
            "earlier": [{"tool_id": step.tool, "output": step.seen["output"]} for step in earlier],
        }
        incomplete = [
            {"tool_id": step.tool, "status": step.seen["status"], "error": step.seen["error"]}
            for step in self.steps
            if step.seen["status"] == "skipped" or (step.errors and step.seen["status"] != "fallback")
        ]
        return {**output, "incomplete": incomplete} if incomplete else output
