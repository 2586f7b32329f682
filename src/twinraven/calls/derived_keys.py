"""Keys derived from arguments: the same intent within a session, or within a span of time, is the same effect.

A tool that says `idempotent_by` makes a careless repetition harmless without the caller's help: two calls with equal
values in the named arguments get the same key, and the second is answered from the first.
"""

from __future__ import annotations

from twinraven.calls.model import CallContext
from twinraven.catalog import ToolEntry
from twinraven.foundation.canonical import canonical_json, content_hash

_SECOND = 1_000_000


def derive_key(entry: ToolEntry, params: dict[str, object], context: CallContext, *, now: int) -> str | None:
    """The key a tool's own rule gives this call, or None where it has no rule."""
    rule = entry.idempotent_by
    if rule is None:
        return None
    if rule.within == "session":
        scope = f"session:{context.session_id}"
    else:
        scope = f"span:{now // (int(rule.within) * _SECOND)}"
    chosen = {name: params.get(name) for name in rule.arguments}
    return f"by:{entry.tool_id}:{content_hash(canonical_json([scope, chosen]))[:40]}"
