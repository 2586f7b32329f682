"""Evaluates conditional requests (RFC 9110, section 13): entity tags, If-Match and If-None-Match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from twinraven.foundation.errors import InvalidInput, StaleState
from twinraven.serving.contract import Request, Route
from twinraven.serving.problems import MatchRequired

PACKED: Final = "-gzip"
"""Ends the tag of an answer that is compressed: another encoding is another representation."""

_MOST_TAGS: Final = 20
_TAG: Final = re.compile(r'(W/)?"([\x21\x23-\x7e]{0,255})"')
_LIST: Final = re.compile(rf"[ \t,]*{_TAG.pattern}(?:[ \t]*,(?:[ \t]*{_TAG.pattern})?)*[ \t]*")
_VERSION: Final = re.compile(r"([1-9][0-9]{0,17})(\.[0-9a-f]{16})?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Condition:
    """The entity tags that a header names, or any."""

    is_any: bool
    strong: tuple[str, ...] = ()
    weak: tuple[str, ...] = ()

    def holds(self, tag: str, *, strongly: bool) -> bool:
        """Return whether the tag is among them; a strong comparison leaves weak ones out."""
        return self.is_any or tag in self.strong or (not strongly and tag in self.weak)


def condition_of(headers: Mapping[bytes, bytes], name: str) -> Condition | None:
    """Return the condition that If-Match or If-None-Match states; None where the header is missing."""
    stated = headers.get(name.lower().encode())
    if stated is None:
        return None
    text = stated.decode("latin-1").strip()
    if text == "*":
        return Condition(is_any=True)
    tags = _TAG.findall(text)
    if _LIST.fullmatch(text) is None or len(tags) > _MOST_TAGS:
        raise InvalidInput(f'{name} must be entity tags, such as "3" or "3", "4", or *', field=name)
    return Condition(
        is_any=False,
        strong=tuple(tag.removesuffix(PACKED) for weak, tag in tags if not weak),
        weak=tuple(tag.removesuffix(PACKED) for weak, tag in tags if weak),
    )


def wanted_versions(route: Route, condition: Condition | None) -> list[str | None]:
    """Return the versions that a change may be made to, one of which must be the current; None stands for any."""
    if route.matching == "no":
        if condition is not None and not condition.is_any and route.is_change:
            raise StaleState("this has no ETag, so If-Match names no version of it", field="If-Match")
        return [None]
    if condition is None:
        if route.matching == "must":
            raise MatchRequired(
                "say with If-Match which version you mean; a GET gives it as ETag, and * means any", field="If-Match"
            )
        return [None]
    # A weak tag names no version that could be changed: it counts as one that never was.
    return [None] if condition.is_any else [*condition.strong] or [""]


def refuse_unmatched(tag: str, condition: Condition | None) -> None:
    """Refuse a read whose If-Match names only other versions."""
    if condition is not None and not condition.holds(tag, strongly=True):
        raise StaleState("If-Match names another version than the current one", field="If-Match", current=tag)


def expected_version(request: Request) -> int | None:
    """Return the version that If-Match names; a tag that we never gave is that of a version that never was."""
    if request.if_match is None:
        return None
    found = _VERSION.fullmatch(request.if_match)
    return 0 if found is None else int(found[1])


def entity_tag(version: str, body: bytes) -> str:
    """Return the entity tag of an answer: the version that a change is based on, and the representation.

    Things change without being edited (a service goes down, a tool is used). That spoils nobody's edit, but whoever
    asks whether something changed wants to know.
    """
    import xxhash

    return f"{version}.{xxhash.xxh3_64_hexdigest(body)}"
