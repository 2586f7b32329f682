"""Derives idempotency keys from arguments: the same intent in a session or a time window is one effect.

A tool that says `idempotent_by` makes a careless repetition harmless without the caller's help: two calls with equal
values in the named arguments get the same key, and the second is answered from the first.
"""

from __future__ import annotations

from collections.abc import Callable

from twinraven.calls.model import CallContext
from twinraven.catalog import ToolEntry
from twinraven.foundation.canonical import canonical_json

_SECOND = 1_000_000


def derive_key(
    entry: ToolEntry,
    params: dict[str, object],
    context: CallContext,
    *,
    now: int,
    hash_text: Callable[[bytes], str],
) -> str | None:
    """Return the key a tool's own rule gives this call, or None where it has no rule.

    The hash should be keyed: a key is stored in the clear, and nobody may test guesses of an argument against it.
    """
    rule = entry.idempotent_by
    if rule is None:
        return None
    if rule.within == "session":
        scope = f"session:{context.session_id}"
    else:
        scope = f"span:{now // (int(rule.within) * _SECOND)}"
    chosen = {name: params.get(name) for name in rule.arguments}
    return f"by:{entry.tool_id}:{hash_text(canonical_json([scope, chosen]))[:40]}"
