"""Converts the outcome of a call into an MCP result.

An upstream's answer goes out as it came in. A failure is an answer too, since a model can act on it: it says what
happened, with the stable code beside it for programs. A call that waits for somebody's approval is answered as pending,
under a key; whoever calls the same tool with the same arguments again asks about that very call.
"""

from __future__ import annotations

from typing import Any, Final, Literal, cast

from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from twinraven.calls import SkillInvocationResponse
from twinraven.connectors import is_result, to_result
from twinraven.foundation.errors import TwinRavenError

Result = dict[str, Any]

Form = Literal["plain", "structured", "wrapped"]
"""How a tool says an object: as text, as structured content too, or as that around the value that the text says."""

WRAPPER: Final = "result"
PENDING: Final = "twinraven/pending"
ERROR: Final = "twinraven/error"
EVENT: Final = "twinraven/event_id"
REPEATED: Final = "twinraven/cached"
KEY: Final = "twinraven/idempotency_key"
_SINCE: Final = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
"""The revisions from which on clients know content of a kind."""
_STRUCTURED_SINCE: Final = "2025-06-18"


def success(response: SkillInvocationResponse, *, form: Form = "structured") -> Result:
    """Build the result of a call that worked: the upstream's own result if any, else made of the output."""
    if response.raw is not None:
        return response.raw
    made = to_result(response.output)
    if form == "structured" or made is response.output:
        return made
    if form == "wrapped" and made.get("structuredContent", {}).keys() == {WRAPPER}:
        return {**made, "content": to_result(made["structuredContent"][WRAPPER])["content"]}
    return made if form == "wrapped" else {"content": made["content"]}


def from_record(result: Result, about: Result) -> Result:
    """Return an answer that was given before, with its age."""
    return {**result, "_meta": {**cast("Result", result.get("_meta") or {}), REPEATED: about}}


def with_event(result: Result, event_id: object) -> Result:
    """Return the answer with the id of its event, for a client that records calls and need not record this one."""
    return {**result, "_meta": {**cast("Result", result.get("_meta") or {}), EVENT: str(event_id)}}


def failure(error: Result, *, event_id: str | None, exact: Result | None = None) -> Result:
    """Return the answer of a call that did not."""
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
    """Return the answer where a call was not even begun."""
    return failure(error.as_json(), event_id=None)


def pending(error: Result, *, tool: str, event_id: str) -> Result:
    """Build the result of a call that needs an approval first."""
    details = cast("Result", error["details"])
    inside, key = details.get("tool_id", tool), details["idempotency_key"]
    if inside == tool:
        text = (
            f"PENDING: {tool} was not run yet, because it needs approval ({error['message']}). Nothing was changed. "
            f"Call {tool} again with the same arguments to ask whether it was approved; it runs at most once."
        )
    else:
        text = (
            f"PENDING: the script ended at its call of {inside}, which needs approval ({error['message']}). Calls "
            f"before it were made. When it was approved, run the same code with key {key!r}: it goes on from "
            "there, and no write is repeated."
        )
    about = {
        "status": "pending",
        "tool": inside,
        "reason": error["message"],
        "approval_id": details["approval_id"],
        "expires_at": details["expires_at"],
    }
    meta = {PENDING: about, KEY: key, EVENT: event_id}
    return {"content": [{"type": "text", "text": text}], "isError": True, "_meta": meta}


def fitted(result: Result, protocol_version: str) -> Result:
    """Return an answer in the form a client's revision knows."""
    if protocol_version in MODERN_PROTOCOL_VERSIONS:
        return {"resultType": "complete", **result}
    content = cast("list[Result]", result.get("content") or [])
    strange = [kind for kind, since in _SINCE.items() if protocol_version < since]
    if any(block.get("type") in strange for block in content):
        result = {**result, "content": [_as_text(one) if one.get("type") in strange else one for one in content]}
    structured = result.get("structuredContent")
    if structured is None or (isinstance(structured, dict) and protocol_version >= _STRUCTURED_SINCE):
        return result
    # Older revisions know structured objects only, or none; the text beside it says the same.
    plain = {name: value for name, value in result.items() if name != "structuredContent"}
    return plain if content else {**plain, "content": to_result(structured)["content"]}


def _as_text(block: Result) -> Result:
    """Return a content block of a kind that a client does not know, in words; data that is no text is only named."""
    if block["type"] == "resource_link":
        named = f"{block.get('title') or block['name']}: {block['uri']}"
        said = block.get("description")
        return {"type": "text", "text": f"{named}\n{said}" if said else named}
    return {
        "type": "text",
        "text": f"[{block['type']}, {block.get('mimeType')}, {len(block['data'])} characters of base64]",
    }


def _without_result(error: Result) -> Result:
    details = {name: value for name, value in cast("Result", error.get("details") or {}).items() if name != "result"}
    return {**error, "details": details}
