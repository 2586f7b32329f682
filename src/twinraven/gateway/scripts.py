"""Runs an agent's script as one call, and each call that the script makes through the one call path.

`run_code` is a tool of the catalogue that no list shows, so its call is checked, judged, recorded and bounded in time
like any other, with the script as its argument. By itself it reads: what a script changes, its inner calls change, and
each of them passes policy, approval, keys and evidence for itself, under the name of the tool that was called. They
name the script's event as their parent. The n-th call of a script runs under the key `outer:n`, so that a script that
is run again under its key repeats no effect.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from typing import Any, Final, cast

from twinraven.app import CodeSettings
from twinraven.calls import CallContext, CallFailed, CallFrame, Calls, SkillInvocationRequest
from twinraven.catalog import RUN_CODE, Effect, Sensitivity, ToolEntry
from twinraven.foundation.canonical import content_hash
from twinraven.foundation.errors import ApprovalPending, InvalidInput, ScriptFailed, ScriptStopped, TwinRavenError
from twinraven.gateway.sandbox import Sandbox, stopped
from twinraven.gateway.tool_exposure import CALL_TOOL, SEARCH_TOOLS, ToolExposure, unwrapped

CONNECTOR: Final = "script"
_GRACE_MS: Final = 5_000
_LONGEST_KEY: Final = 512
_COMPARED: Final = 200
_NOT_TWICE: Final = "to run it again without repeating its writes, pass key {!r}"
_GO_ON: Final = "when it has been granted, run the same code with key {!r}; calls that were made are not made again"

_is_inside: ContextVar[bool] = ContextVar("twinraven_script", default=False)


class ScriptTool:
    """The catalogue's entry for scripts: found by name, shown in no list."""

    def __init__(self, limits: CodeSettings) -> None:
        self.entry: Final = ToolEntry(
            tool_id=RUN_CODE,
            description="Runs a script whose only powers are tool calls.",
            input_schema={
                "type": "object",
                "properties": {"code": {"type": "string", "minLength": 1, "maxLength": limits.max_code_chars}},
                "required": ["code"],
                "additionalProperties": False,
            },
            effect=Effect.READ,
            effect_origin="declared",
            sensitivity=Sensitivity.LOW,
            connector=CONNECTOR,
            # A moment more than a script may take, so that it can say which limit it was.
            timeout_ms=int(limits.max_seconds * 1_000) + _GRACE_MS,
        )

    def find(self, tenant_id: str, tool_id: str) -> ToolEntry | None:
        del tenant_id
        return self.entry if tool_id == RUN_CODE else None

    def entries(self, tenant_id: str) -> list[ToolEntry]:
        del tenant_id
        return []


class ScriptConnector:
    """Runs scripts, as a connector of the call path."""

    name = CONNECTOR

    def __init__(self, calls: Calls, toolbox: ToolExposure, limits: CodeSettings, *, await_reads: bool = False) -> None:
        self.calls: Final = calls
        self.toolbox: Final = toolbox
        self.max_calls: Final = limits.max_calls
        self.await_reads: Final = await_reads
        self._sandbox = Sandbox(limits)

    async def invoke(self, entry: ToolEntry, params: dict[str, Any], *, call: CallFrame) -> Any:
        """Run a script; its result, what it printed and how many calls it made."""
        del entry
        if _is_inside.get():
            raise InvalidInput("a script cannot run another script", field="code")
        inner = _InnerCalls(self, call)
        token = _is_inside.set(True)
        try:
            done = await self._sandbox.run(params["code"], inner)
        except (ScriptFailed, ScriptStopped) as error:
            raise inner.explained(error) from error
        finally:
            _is_inside.reset(token)
        return {"result": done.result, "printed": done.printed, "calls": inner.made}

    async def close(self) -> None:
        """End the processes that ran scripts."""
        await self._sandbox.close()


class _InnerCalls:
    """What one script can do: call the tools that its caller may call, and search them."""

    def __init__(self, connector: ScriptConnector, outer: CallFrame) -> None:
        self.made = 0
        self._connector = connector
        self._toolbox = connector.toolbox
        self._outer = outer
        self._functions = connector.toolbox.functions(outer.tenant_id, outer.caller)
        self._writes = 0
        self._last_error: CallFailed | None = None

    def knows(self, function: str) -> bool:
        return function in (SEARCH_TOOLS, CALL_TOOL) or function in self._functions

    def begin(self, function: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Coroutine[Any, Any, Any]:
        """Return a call about to be made; the calls of a script are numbered in its own order."""
        most = self._connector.max_calls
        if self.made >= most:
            raise stopped("code.max_calls", f"it made more than {most} calls")
        self.made += 1
        return self._make(self.made, function, args, dict(kwargs))

    async def _make(self, number: int, function: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if function == SEARCH_TOOLS:
            asked = _bound(function, ("query", "limit"), args, kwargs)
            return self._toolbox.search(self._outer.tenant_id, self._outer.caller, asked)
        if function == CALL_TOOL:
            name, arguments = unwrapped(_bound(function, ("name", "arguments"), args, kwargs))
            return await self._call(number, name, arguments)
        if len(args) == 1 and isinstance(args[0], dict) and not kwargs:
            return await self._call(number, self._functions[function], cast("dict[str, Any]", args[0]))
        return await self._call(number, self._functions[function], _bound(function, (), args, kwargs))

    async def _call(self, number: int, name: str, arguments: dict[str, Any]) -> Any:
        outer = self._outer
        entry = self._toolbox.offers.find(outer.tenant_id, outer.caller, name)
        request = SkillInvocationRequest(
            tool_name=entry.tool_id,
            payload=arguments,
            tenant_id=outer.tenant_id,
            correlation_id=outer.correlation_id,
            task_id=outer.task_id,
            idempotency_key=_inner_key(outer.key, number) if entry.writes and outer.key is not None else None,
        )
        context = CallContext(
            session_id=outer.session_id,
            turn=outer.turn,
            parent_event_id=outer.event_id,
            durable=entry.writes or self._connector.await_reads,
            caller=outer.caller,
            actor=outer.actor,
            spare_key=_inner_key(self._base, number),
        )
        self._writes += entry.writes
        response = await self._connector.calls.invoke(request, context, entry=entry)
        if response.error is not None:
            self._last_error = CallFailed(response)
            raise self._last_error
        return response.output

    @property
    def _base(self) -> str:
        return self._outer.key or self._outer.spare_key or str(self._outer.event_id)

    def explained(self, error: ScriptFailed | ScriptStopped) -> TwinRavenError:
        """Return a script's end with the call that it did not survive, and the key under which no write is repeated."""
        last = self._last_error
        if last is not None and f"{last.code}: {last.message}"[:_COMPARED] in error.message:
            if last.code == ApprovalPending.code:
                details = {**last.details, "idempotency_key": self._base, "fix": _GO_ON.format(self._base)}
                return ApprovalPending(last.message, **details)
            event_id = last.response.event_id
            cause = {"code": last.code, "tool_id": last.details.get("tool_id"), "event_id": str(event_id)}
            error.details["cause"] = cause
        if self._writes and self._outer.key is None:
            fixes = (error.details.get("fix"), _NOT_TWICE.format(self._base))
            error.details |= {"idempotency_key": self._base, "fix": "; ".join(fix for fix in fixes if fix)}
        return error


def _inner_key(outer: str, number: int) -> str:
    key = f"{outer}:{number}"
    return key if len(key) <= _LONGEST_KEY else f"{content_hash(outer.encode())}:{number}"


def _bound(function: str, names: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return a call's arguments by their names, as Python binds them."""
    if len(args) > len(names):
        takes = f"at most {len(names)} positional arguments" if names else "keyword arguments, or one dict of them"
        raise InvalidInput(f"{function}() takes {takes}")
    given = dict(zip(names, args, strict=False))
    for name in given:
        if name in kwargs:
            raise InvalidInput(f"{function}() got {name!r} twice", field=name)
    return {**given, **kwargs}
