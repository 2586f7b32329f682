"""Tags that the record itself shows: `retry`, `fallback-path`, `cached-result`.

- `retry`: the same tool with the same arguments, after it raised in this session.
- `fallback-path`: another tool with the same arguments, right after one raised.
- `cached-result`: the output says of itself that it came from a cache.

Tags never affect identity or order; they are filters for mining.
"""

from __future__ import annotations

from collections import OrderedDict

RETRY = "retry"
FALLBACK = "fallback-path"
CACHED = "cached-result"

_SESSIONS = 4096
_TOOLS = 64
_CACHE_MARKS = (b'"cached":true', b'"from_cache":true', b'"cache_hit":true', b'"x-cache":"HIT"')


class TagExtractor:
    """Remembers, for the sessions seen lately, which calls raised."""

    def __init__(self) -> None:
        self._raised: OrderedDict[tuple[str, str], dict[str, str]] = OrderedDict()
        self._last: dict[tuple[str, str], tuple[str, str] | None] = {}

    def tags(
        self, tenant_id: str, session_id: str, tool_id: str, input_hash: str, *, raised: bool, output: bytes | None
    ) -> list[str]:
        """The tags of the next call of a session, in the order the calls are recorded."""
        key = (tenant_id, session_id)
        failures = self._raised.get(key)
        found: list[str] = []
        if failures:
            if failures.get(tool_id) == input_hash:
                found.append(RETRY)
            last = self._last.get(key)
            if last is not None and last[0] != tool_id and last[1] == input_hash:
                found.append(FALLBACK)
        if output is not None and b"cach" in output and any(mark in output for mark in _CACHE_MARKS):
            found.append(CACHED)
        if raised or failures:
            self._remember(key, tool_id, input_hash, raised=raised)
        return found

    def _remember(self, key: tuple[str, str], tool_id: str, input_hash: str, *, raised: bool) -> None:
        failures = self._raised.setdefault(key, {})
        self._raised.move_to_end(key)
        if raised:
            if len(failures) < _TOOLS or tool_id in failures:
                failures[tool_id] = input_hash
        else:
            failures.pop(tool_id, None)
        self._last[key] = (tool_id, input_hash) if raised else None
        if len(self._raised) > _SESSIONS:
            oldest, _ = self._raised.popitem(last=False)
            self._last.pop(oldest, None)
