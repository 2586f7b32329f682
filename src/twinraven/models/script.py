"""Reads the script of a scripted model: which answer is given to which question.

A script is YAML or JSON: a list of answers, each with an optional `when` that says which questions it is for. The first
that fits and is not used up is given.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.errors import InvalidInput

_WHEN: Final = frozenset({"contains", "mentions", "matches", "system", "messages", "wants_json"})
_ANSWER: Final = frozenset(
    {"when", "times", "say", "json", "tool_calls", "delay_s", "piece_chars", "pause_s", "status", "headers", "raw"}
    | {"break_off", "stop", "usage"}
)


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool that the scripted model asks for."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question as a script looks at it, whichever dialect it came in."""

    system: str
    last: str
    """The text of the last message."""
    all: str
    """The text of all messages."""
    messages: int
    wants_json: bool


@dataclass(frozen=True, slots=True)
class ScriptedWhen:
    """Matches the questions that an answer is for; fields that are not stated match anything."""

    contains: str | None = None
    """A text in the last message."""
    mentions: str | None = None
    """A text in any message."""
    matches: re.Pattern[str] | None = None
    system: str | None = None
    messages: int | None = None
    wants_json: bool | None = None

    def fits(self, asked: AskedQuestion) -> bool:
        """Return whether the last message, the system prompt and the number of messages are as stated."""
        return (
            (self.contains is None or self.contains in asked.last)
            and (self.mentions is None or self.mentions in asked.all)
            and (self.matches is None or self.matches.search(asked.last) is not None)
            and (self.system is None or self.system in asked.system)
            and (self.messages is None or self.messages == asked.messages)
            and (self.wants_json is None or self.wants_json == asked.wants_json)
        )


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """One answer of a script, and how it is given."""

    text: str = ""
    when: ScriptedWhen = field(default_factory=ScriptedWhen)
    times: int | None = None
    """How often it is given; None: as often as it fits."""
    tool_calls: tuple[ScriptedCall, ...] = ()
    delay_s: float = 0.0
    piece_chars: int = 16
    pause_s: float = 0.0
    """Between two pieces of a stream."""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    raw: str | None = None
    """The body as it is, in place of an answer in the provider's form."""
    break_off: bool = False
    """Whether the connection ends in the middle of the answer."""
    stop: str | None = None
    usage: tuple[int, int] | None = None


class ModelScript:
    """The answers of a script, with what was given so far."""

    def __init__(self, answers: tuple[ScriptedAnswer, ...], *, model: str = "scripted") -> None:
        self.model = model
        self.answers = answers
        self._given = [0] * len(answers)
        self._lock = threading.Lock()

    def choose(self, asked: AskedQuestion) -> ScriptedAnswer | None:
        """Return the first answer that fits and is not used up; None where the script has none."""
        with self._lock:
            for number, answer in enumerate(self.answers):
                is_left = answer.times is None or self._given[number] < answer.times
                if is_left and answer.when.fits(asked):
                    self._given[number] += 1
                    return answer
        return None


def read_script(document: Any) -> ModelScript:
    """Read a script: an object with `answers`, or the list of answers itself; errors name the place."""
    stated = cast("Any", {"answers": document} if isinstance(document, list) else document)
    if not isinstance(stated, dict):
        raise InvalidInput("a script is an object with answers, or a list of answers", field="script")
    found = cast("dict[str, Any]", stated)
    _refuse_unknown(found, frozenset({"model", "answers"}), "script")
    answers = found.get("answers")
    if not isinstance(answers, list) or not answers:
        raise InvalidInput("a script needs a list of answers", field="answers")
    read = tuple(_read_answer(item, f"answers[{number}]") for number, item in enumerate(cast("list[Any]", answers)))
    return ModelScript(read, model=_text(found, "model", "script") or "scripted")


def _read_answer(stated: Any, where: str) -> ScriptedAnswer:
    if isinstance(stated, str):
        return ScriptedAnswer(stated)
    if not isinstance(stated, dict):
        raise InvalidInput(f"{where} must be a text or an object", field=where)
    found = cast("dict[str, Any]", stated)
    _refuse_unknown(found, _ANSWER, where)
    text = _text(found, "say", where) or ""
    if "json" in found:
        text = canonical_json(found["json"]).decode()
    usage = found.get("usage")
    headers = _mapping(found.get("headers") or {}, f"{where}.headers")
    return ScriptedAnswer(
        text=text,
        when=_read_when(found.get("when"), f"{where}.when"),
        times=_whole(found, "times", where, least=1),
        tool_calls=tuple(
            _read_call(call, f"{where}.tool_calls[{number}]")
            for number, call in enumerate(cast("list[Any]", found.get("tool_calls") or []))
        ),
        delay_s=_number(found, "delay_s", where),
        piece_chars=_whole(found, "piece_chars", where, least=1) or 16,
        pause_s=_number(found, "pause_s", where),
        status=_whole(found, "status", where, least=200) or 200,
        headers=tuple((str(name), str(value)) for name, value in headers.items()),
        raw=_text(found, "raw", where),
        break_off=bool(found.get("break_off", False)),
        stop=_text(found, "stop", where),
        usage=None if usage is None else _read_usage(usage, f"{where}.usage"),
    )


def _read_when(stated: Any, where: str) -> ScriptedWhen:
    if stated is None:
        return ScriptedWhen()
    if isinstance(stated, str):
        return ScriptedWhen(contains=stated)
    found = _mapping(stated, where)
    _refuse_unknown(found, _WHEN, where)
    pattern = _text(found, "matches", where)
    try:
        matches = None if pattern is None else re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise InvalidInput(f"{where}.matches is no regular expression: {error}", field=f"{where}.matches") from None
    return ScriptedWhen(
        contains=_text(found, "contains", where),
        mentions=_text(found, "mentions", where),
        matches=matches,
        system=_text(found, "system", where),
        messages=_whole(found, "messages", where, least=1),
        wants_json=None if found.get("wants_json") is None else bool(found["wants_json"]),
    )


def _read_call(stated: Any, where: str) -> ScriptedCall:
    found = _mapping(stated, where)
    name = _text(found, "name", where)
    if not name:
        raise InvalidInput(f"{where} needs a name", field=f"{where}.name")
    arguments = found.get("arguments", {})
    return ScriptedCall(name, arguments if isinstance(arguments, str) else canonical_json(arguments).decode())


def _read_usage(stated: Any, where: str) -> tuple[int, int]:
    found = _mapping(stated, where)
    return (
        _whole(found, "input_tokens", where, least=0) or 0,
        _whole(found, "output_tokens", where, least=0) or 0,
    )


def _mapping(stated: Any, where: str) -> dict[str, Any]:
    if not isinstance(stated, Mapping):
        raise InvalidInput(f"{where} must be an object", field=where)
    return dict(cast("Mapping[str, Any]", stated))


def _text(found: Mapping[str, Any], name: str, where: str) -> str | None:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidInput(f"{where}.{name} must be a text", field=f"{where}.{name}")
    return value


def _whole(found: Mapping[str, Any], name: str, where: str, *, least: int) -> int | None:
    value = found.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(f"{where}.{name} must be a whole number from {least}", field=f"{where}.{name}")
    return value


def _number(found: Mapping[str, Any], name: str, where: str) -> float:
    value = found.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 3_600:
        raise InvalidInput(f"{where}.{name} must be a number of seconds up to 3600", field=f"{where}.{name}")
    return float(value)


def _refuse_unknown(found: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    unknown = sorted(set(found) - known)
    if unknown:
        raise InvalidInput(
            f"{where} has an unknown member {unknown[0]!r}; there are {', '.join(sorted(known))}",
            field=f"{where}.{unknown[0]}",
        )
