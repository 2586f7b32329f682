"""Tags events by what the record itself shows: `retry`, `fallback-path`, `cached-result`.

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
_CALLS = 256
_CACHE_MARKS = (b'"cached":true', b'"from_cache":true', b'"cache_hit":true', b'"x-cache":"HIT"')

_Call = tuple[str, str]
"""A tool and the hash of its arguments."""


class _Failures:
    """The calls of one session that raised and have not succeeded since, and the last one if nothing came after it."""

    __slots__ = ("last", "open")

    def __init__(self) -> None:
        self.open: dict[_Call, None] = {}
        self.last: _Call | None = None

    def note(self, call: _Call, *, raised: bool) -> None:
        self.open.pop(call, None)
        self.last = call if raised else None
        if raised:
            self.open[call] = None
            if len(self.open) > _CALLS:
                del self.open[next(iter(self.open))]


class TagExtractor:
    """Remembers, for the sessions seen lately, which calls raised."""

    def __init__(self) -> None:
        self._failures: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def tags(
        self, tenant_id: str, session_id: str, tool_id: str, input_hash: str, *, raised: bool, output: bytes | None
    ) -> list[str]:
        """Return the tags of the next call of a session, in the order the calls are recorded."""
        failures = self._failures.get((tenant_id, session_id))
        found: list[str] = []
        if failures is not None:
            if (tool_id, input_hash) in failures.open:
                found.append(RETRY)
            last = failures.last
            if last is not None and last[0] != tool_id and last[1] == input_hash:
                found.append(FALLBACK)
        if output is not None and output.find(b"cach") >= 0 and any(mark in output for mark in _CACHE_MARKS):
            found.append(CACHED)
        if raised or failures is not None:
            self._remember((tenant_id, session_id)).note((tool_id, input_hash), raised=raised)
        return found

    @property
    def remembered_sessions(self) -> int:
        return len(self._failures)

    def _remember(self, session: tuple[str, str]) -> _Failures:
        failures = self._failures.get(session)
        if failures is None:
            failures = self._failures[session] = _Failures()
            if len(self._failures) > _SESSIONS:
                self._failures.popitem(last=False)
        else:
            self._failures.move_to_end(session)
        return failures
