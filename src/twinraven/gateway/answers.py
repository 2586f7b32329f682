"""What came of a call, as the protocol says it.

An upstream's answer goes out as it came in. A failure is an answer too, since a model can act on it: it says what
happened, with the stable code beside it for programs. A write that waits for somebody's approval is answered as
pending, under a key; whoever calls the same tool with the same arguments again asks about that very call.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final, cast

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from twinraven.calls import SkillInvocationResponse
from twinraven.connectors import is_result, to_result
from twinraven.foundation.canonical import canonical_json, content_hash
from twinraven.foundation.errors import TwinRavenError

Result = dict[str, Any]

PENDING: Final = "twinraven/pending"
ERROR: Final = "twinraven/error"
EVENT: Final = "twinraven/event_id"
KEY: Final = "twinraven/idempotency_key"
_MOST_PENDING: Final = 10_000


def success(response: SkillInvocationResponse, exact: Result | None) -> Result:
    """The answer of a call that worked: the upstream's own words where there are some."""
    return exact if exact is not None else to_result(response.output)


def failure(error: Result, *, event_id: str | None, exact: Result | None = None) -> Result:
    """The answer of a call that did not."""
    details = cast("Result", error.get("details") or {})
    said = exact if exact is not None else details.get("result")
    meta = {ERROR: _without_result(error), **({} if event_id is None else {EVENT: event_id})}
    if is_result(said):
        body = cast("Result", said)
        return {**body, "isError": True, "_meta": {**cast("Result", body.get("_meta") or {}), **meta}}
    fix = details.get("fix")
    text = f"{error['code']}: {error['message']}" + (f" (fix: {fix})" if fix else "")
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": meta}


def refusal(error: TwinRavenError) -> Result:
    """The answer where a call was not even begun."""
    return failure(error.as_json(), event_id=None)


def pending(error: Result, *, tool: str, key: str, event_id: str) -> Result:
    """The answer of a write that somebody must approve first."""
    text = (
        f"PENDING: {tool} was not run yet, because it needs approval ({error['message']}). Nothing was changed. "
        f"Call {tool} again with the same arguments to ask whether it was approved; it runs at most once."
    )
    meta = {PENDING: {"status": "pending", "tool": tool, "reason": error["message"]}, KEY: key, EVENT: event_id}
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": meta}


def is_pending(error: Result | None) -> bool:
    """Whether policy wants somebody to decide."""
    return error is not None and cast("Result", error.get("details") or {}).get("verdict") == "ask"


def fitted(result: Result, protocol_version: str) -> Result:
    """An answer in the form a client's revision knows."""
    if protocol_version in MODERN_PROTOCOL_VERSIONS:
        return {**result, "resultType": "complete"}
    structured = result.get("structuredContent")
    if structured is None or isinstance(structured, dict):
        return result
    # Older revisions know structured objects only; the text beside it says the same.
    return {name: value for name, value in result.items() if name != "structuredContent"}


def _without_result(error: Result) -> Result:
    details = {name: value for name, value in cast("Result", error.get("details") or {}).items() if name != "result"}
    return {**error, "details": details}


class PendingCalls:
    """The keys of calls that wait for approval, by what was asked for in which session."""

    def __init__(self) -> None:
        self._keys: OrderedDict[str, str] = OrderedDict()

    def key_of(self, tenant_id: str, session_id: str, tool: str, arguments: Result) -> str | None:
        """The key under which the same call was found pending."""
        return self._keys.get(_fingerprint(tenant_id, session_id, tool, arguments)) if self._keys else None

    def hold(self, key: str, tenant_id: str, session_id: str, tool: str, arguments: Result) -> None:
        self._keys[_fingerprint(tenant_id, session_id, tool, arguments)] = key
        while len(self._keys) > _MOST_PENDING:
            self._keys.popitem(last=False)

    def release(self, tenant_id: str, session_id: str, tool: str, arguments: Result) -> None:
        """Forget a call that was run or refused for good: the next one like it is a new one."""
        if self._keys:
            self._keys.pop(_fingerprint(tenant_id, session_id, tool, arguments), None)


def _fingerprint(*parts: Any) -> str:
    return content_hash(canonical_json(list(parts)))
