"""Encodes an observed call as a row of the log.

The caller's thread only takes a snapshot (`Observation`): arguments and output as bytes, so that later changes to the
objects cannot rewrite history. Redaction, hashing, summaries and tags happen on the writer's thread, in that order:
what is hashed is what is stored, so equal stays equal and nothing leaks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from threading import Lock
from typing import Any, Final

import orjson
import xxhash

from twinraven.foundation.canonical import content_hash
from twinraven.foundation.redaction import Redact, keep_everything
from twinraven.muninn.columns import COLUMNS, Row
from twinraven.muninn.model import EVENT_FIELDS, Observation
from twinraven.muninn.summary import summarize
from twinraven.muninn.tagging import TagExtractor

_COMPUTED: Final = ("input_hash", "input_params", "output_summary", "output_hash")
_GIVEN: Final = (*Observation._fields, *_COMPUTED)
_in_order: Final[Callable[[Row], Row]] = itemgetter(*map(_GIVEN.index, COLUMNS))
"""An observation and what was computed from it, in the order of the columns."""


def _places(*, kind: str, redaction: str | None = None) -> tuple[int, ...]:
    """Return where a row holds what the observation states of this kind."""
    wanted = (each for each in EVENT_FIELDS if each.kind == kind and each.redaction == redaction)
    return tuple(COLUMNS.index(each.name) for each in wanted if each.name in Observation._fields)


_IDS: Final = _places(kind="UUID")
_FLAGS: Final = _places(kind="bool")
_NAMES: Final = _places(kind="str", redaction="name")
_TEXTS: Final = _places(kind="str", redaction="text")
_TAGS: Final = COLUMNS.index("tags")
_OUTCOME: Final = COLUMNS.index("outcome")
_names_of: Final[Callable[[list[Any]], tuple[str | None, ...]]] = itemgetter(*map(int, _NAMES))

Compress = Callable[[str, bytes, int], str | None]
"""Summarizes an output for a tenant in at most so many characters; None where it cannot."""


@dataclass(frozen=True, slots=True)
class EncodingRules:
    """Rules for encoding a call: whether outputs are stored, and the length of summaries."""

    store_outputs: bool = True
    summary_chars: int = 280
    """Zero turns summaries off."""


class RowEncoder:
    """Turns observations into rows of the log and blobs; one per log of a process, because tags look back."""

    def __init__(
        self,
        rules: EncodingRules,
        redact: Redact = keep_everything,
        *,
        redact_names: Redact | None = None,
        compress: Compress | None = None,
    ) -> None:
        """`compress` is asked for summaries of outputs that are too long to be their own."""
        self._rules = rules
        self._compress = compress
        self._redact = redact
        self._redact_names = redact_names or redact
        self._tagger = TagExtractor()
        self.unlock()

    def unlock(self) -> None:
        """Replace the lock in a forked child, whose holder is gone."""
        self._tagging = Lock()

    @property
    def is_slow(self) -> bool:
        """Whether encoding may ask others, so that no transaction should wait for it."""
        return self._compress is not None

    def encode(self, seen: Observation) -> tuple[Row, Row | None]:
        """Return the log's row and, where the output is kept, the blob's."""
        redact, tenant = self._redact, seen.tenant_id
        params = redact(tenant, seen.params)
        output = None if seen.output is None else redact(tenant, seen.output)
        hashed = xxhash.xxh64_hexdigest(params)
        with self._tagging:
            extracted = self._tagger.tags(
                tenant, seen.session_id, seen.tool_id, hashed, raised=seen.raised, output=output
            )
        tags = seen.tags if not extracted else (*seen.tags, *(tag for tag in extracted if tag not in seen.tags))
        summary, blob = self._keep(tenant, output)
        computed = (hashed, params.decode(), summary, None if blob is None else blob[1])
        # Put together with a plus, a named tuple is copied at once; unpacked, it is walked.
        row = list(_in_order(seen + computed))
        # Most of what may be left out is left out: that is looked at before anything is called.
        for place in _IDS:
            if row[place] is not None:
                row[place] = orjson.dumps(row[place])[1:-1].decode()  # half of what `str` takes
        for place in _FLAGS:
            row[place] = 1 if row[place] else 0
        # A text by its type, too: the drivers ask any other type in vain whether it adapts itself.
        row[_OUTCOME] = str(row[_OUTCOME])
        row[_TAGS] = orjson.dumps([self.clean(tenant, tag) for tag in tags]).decode() if tags else "[]"
        for place in _TEXTS:
            if row[place] is not None:
                row[place] = self.clean(tenant, row[place])
        if self._redact_names is not keep_everything:
            self._clean_names(tenant, row)
        return tuple(row), blob

    def _keep(self, tenant: str, output: bytes | None) -> tuple[str | None, Row | None]:
        if output is None:
            return None, None
        limit = self._rules.summary_chars
        summary = None
        if limit and self._compress is not None and len(output) > limit:
            summary = self._compress(tenant, output, limit)
        if limit and summary is None:
            summary = summarize(output, limit)
        blob = (tenant, content_hash(output), output) if self._rules.store_outputs else None
        return summary, blob

    def _clean_names(self, tenant: str, row: list[Any]) -> None:
        """Redact the short texts that others name an event by; nearly always clean, so one look serves for all."""
        redact = self._redact_names
        together = "\n".join(filter(None, _names_of(row))).encode()
        if redact(tenant, together) is not together:
            for place in _NAMES:
                if row[place] is not None:
                    row[place] = redact(tenant, row[place].encode()).decode()

    def clean(self, tenant: str, text: str) -> str:
        """Free text without what must not be stored or shown."""
        if self._redact is keep_everything:
            return text
        return self._redact(tenant, text.encode()).decode("utf-8", "replace")
