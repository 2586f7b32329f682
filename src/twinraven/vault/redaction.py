"""Redacts secrets: each becomes a token before anything is stored or logged.

Known values are looked for in every spelling; strings that look like credentials by option. A text without any of them
is returned as it is, which is what nearly all of them are. The set of known values follows the vault: at once for what
this process changed or revealed, within a second for what another did.

A JSON text stays JSON: where replacing the bytes would break it (a number, half of an escape), the value is taken apart
and put together again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, cast

import orjson

from twinraven.foundation.canonical import canonical_json, parse_json
from twinraven.foundation.errors import InvalidInput
from twinraven.vault.marked import has_marks, marked_texts, replace_marked
from twinraven.vault.matcher import Matcher, Span, replace_spans

if TYPE_CHECKING:
    from twinraven.vault.known_values import KnownValues
    from twinraven.vault.tokens import TenantKeys

POLL_S = 1.0
_SHORT_BYTES = 65_536
_UNCOUNTED = -1
"""The change counter of values that are not loaded from the store yet."""
_NOBODY = ""
"""Whose key makes the tokens of texts that belong to no tenant, such as a line of a log."""


class _Known:
    """What is looked for in one tenant's texts."""

    __slots__ = ("changes", "due", "matcher", "values")

    def __init__(self, changes: int, values: frozenset[str], matcher: Matcher | None, due: float) -> None:
        self.changes = changes
        self.values = values
        self.matcher = matcher
        self.due = due


class Redactor:
    """Replaces secrets by tokens, for all tenants of one home."""

    def __init__(
        self,
        keys: TenantKeys,
        known: KnownValues,
        *,
        detect: bool = False,
        entropy: float | None = None,
        poll_s: float = POLL_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._source = known
        self._detect = detect
        self._entropy = entropy
        self._poll_s = poll_s
        self._monotonic = monotonic
        self._known: dict[str, _Known] = {}
        self._notices = 0

    def redact(self, tenant_id: str, text: bytes) -> bytes:
        """Return a JSON text without secrets; the same object if it had none. Reads the vault when a look is due."""
        matcher = self._current(tenant_id)
        if (matcher is None or matcher.search(text) is None) and not self._detect:
            return text
        return _redact_json(text, lambda part: self._spans(tenant_id, matcher, part))

    def redact_now(self, tenant_id: str, text: bytes) -> bytes | None:
        """As `redact`, for a short text on an event loop; None where the vault must be read first, or it takes long."""
        known = self._known.get(tenant_id)
        if known is None or self._monotonic() >= known.due or len(text) > _SHORT_BYTES:
            return None
        return self.redact(tenant_id, text)

    def redact_known(self, tenant_id: str, text: bytes) -> bytes:
        """As `redact`, but only values of the vault: for ids and keys, which look random because they are."""
        matcher = self._current(tenant_id)
        if matcher is None or matcher.search(text) is None:
            return text
        return _redact_json(text, matcher.spans)

    def redact_text(self, text: str, *, tenant_id: str | None = None) -> str:
        """Redact the secrets of a tenant, or of all tenants this process serves, in a plain text.

        It uses what is known and reads nothing, so it may be called on an event loop.
        """
        raw = text.encode("utf-8", "surrogatepass")
        chosen = self._known.items() if tenant_id is None else [(tenant_id, self._known.get(tenant_id))]
        spans: list[Span] = []
        for _, known in list(chosen):
            if known is not None and known.matcher is not None and known.matcher.search(raw) is not None:
                spans.extend(known.matcher.spans(raw))
        if self._detect:
            spans.extend(self._credentials(tenant_id or _NOBODY, raw))
        return replace_spans(raw, spans).decode("utf-8", "surrogatepass") if spans else text

    def redact_marked(self, tenant_id: str, schema: Any, value: Any) -> Any:
        """Return a value without what its JSON Schema marks as secret."""
        return replace_marked(schema, value, lambda text: self._keys.token(tenant_id, text.strip()))

    def has_marks(self, schema: Any) -> bool:
        """Return whether a JSON Schema marks anything as secret."""
        return has_marks(schema)

    def redact_echoes(self, tenant_id: str, schema: Any, value: Any, text: bytes) -> bytes:
        """Return a JSON text without anything that stood in a marked field of `value`, in any spelling."""
        return self.echoes(tenant_id, schema, value)(text)

    def echoes(self, tenant_id: str, schema: Any, value: Any) -> Callable[[bytes], bytes]:
        """`redact_echoes` for several texts of one call: what to look for is worked out once."""
        matcher = self._matcher(tenant_id, marked_texts(schema, value))

        def redact(text: bytes) -> bytes:
            if matcher is None or matcher.search(text) is None:
                return text
            return _redact_json(text, matcher.spans)

        return redact

    def token(self, tenant_id: str, value: str) -> str:
        """Return the token that replaces a value."""
        return self._keys.token(tenant_id, value.strip().encode("utf-8", "replace"))

    def prepare(self, tenant_id: str) -> None:
        """Learn a tenant's values now; call it off the loop, before the first text is redacted on it."""
        self._look(tenant_id)

    def changed(self, tenant_id: str) -> None:
        """Reload before the next text: a secret was created, rotated or deleted by this process."""
        self._notices += 1
        known = self._known.get(tenant_id)
        if known is not None:
            known.due = 0.0

    def revealed(self, tenant_id: str, value: str) -> None:
        """Add a value that is about to be used here, and reload before the next text."""
        known = self._known.get(tenant_id)
        if known is None or value not in known.values:
            values = {value} if known is None else {value, *known.values}
            # Logs are cleaned without a look at the store, so what is about to be used must be known from now on.
            self._known[tenant_id] = _Known(_UNCOUNTED, frozenset(values), self._matcher(tenant_id, values), 0.0)
            self._notices += 1

    def _current(self, tenant_id: str) -> Matcher | None:
        known = self._known.get(tenant_id)
        if known is None or self._monotonic() >= known.due:
            known = self._look(tenant_id)
        return known.matcher

    def _look(self, tenant_id: str) -> _Known:
        notices = self._notices
        known = self._known.get(tenant_id)
        changes = self._source.changes(tenant_id)
        if known is None or known.changes != changes:
            values = self._source.values(tenant_id) if changes else []
            matcher = self._matcher(tenant_id, values) if values else None
            known = _Known(changes, frozenset(values), matcher, 0.0)
            self._known[tenant_id] = known
        # A notice that came in meanwhile may be about something this look did not see yet.
        known.due = self._monotonic() + self._poll_s if notices == self._notices else 0.0
        return known

    def _matcher(self, tenant_id: str, values: Iterable[str]) -> Matcher | None:
        # Only a home with secrets pays for knowing how they are spelt.
        from twinraven.vault.spellings import spellings

        tokens = {text: self.token(tenant_id, value).encode() for value in values for text in spellings(value)}
        return Matcher(tokens) if tokens else None

    def _spans(self, tenant_id: str, matcher: Matcher | None, text: bytes) -> list[Span]:
        found = [] if matcher is None else matcher.spans(text)
        if self._detect:
            found.extend(self._credentials(tenant_id, text))
        return found

    def _credentials(self, tenant_id: str, text: bytes) -> list[Span]:
        from twinraven.vault.detection import DEFAULT_ENTROPY, find_credentials

        places = find_credentials(text, entropy=self._entropy or DEFAULT_ENTROPY)
        return [Span(start, end, self._keys.token(tenant_id, text[start:end]).encode()) for start, end in places]


def _redact_json(text: bytes, find: Callable[[bytes], list[Span]]) -> bytes:
    spans = find(text)
    if not spans:
        return text
    replaced = replace_spans(text, spans)
    if _is_json(replaced):
        return replaced
    try:
        value = parse_json(text)
    except InvalidInput:
        return replaced
    return canonical_json(_replace_in(value, find))


def _is_json(text: bytes) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def _replace_in(value: Any, find: Callable[[bytes], list[Span]]) -> Any:
    """Return a JSON value with secrets replaced in its strings, its keys and the digits of its numbers."""
    if isinstance(value, str):
        raw = value.encode("utf-8", "replace")
        return replace_spans(raw, find(raw)).decode("utf-8", "replace")
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {_replace_in(name, find): _replace_in(member, find) for name, member in members.items()}
    if isinstance(value, list):
        return [_replace_in(item, find) for item in cast("list[Any]", value)]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        raw = canonical_json(value)
        spans = find(raw)
        return replace_spans(raw, spans).decode() if spans else value
    return value
