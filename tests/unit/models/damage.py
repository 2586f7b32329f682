"""Damages good answers of models in twelve ways, as models and networks do, and gives what a real model said.

The answers of the real model were gathered by `python -m tools.real_answers` and are as they came.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

GOODS = (
    {"goal": "Sell a lamp.", "steps": [{"step_id": "1", "description": "Look it up.", "tool": "look"}]},
    {
        "goal": "Tell the customer where the order is.",
        "steps": [
            {"step_id": "1", "description": "Look the order up.", "tool": "look", "arguments": {"item": "W1001"}},
            {"step_id": "2", "description": "Word an answer: be brief, be kind.", "agent": "llm"},
            {"step_id": "3", "description": "Put it aside", "tool": "reserve", "critical": True},
        ],
    },
    {
        "goal": "Plan (a) then [b], {c}",
        "steps": [
            {"step_id": "a", "description": 'First "the" item\nand more', "agent": "llm"},
            {"step_id": "b", "description": "C:\\lamp, 5 > 3", "tool": "look", "depends_on": ["a"], "arguments": None},
        ],
    },
    {
        "goal": "Räume auf – bitte",
        "steps": [{"step_id": str(n), "description": f"Schritt {n}", "agent": "llm"} for n in range(1, 6)],
    },
)


def _prose(text: str, chance: random.Random) -> str:
    opening = chance.choice(["Sure! Here is the plan:", "Certainly.", "Plan {draft}:"])
    return f"{opening}\n{text}\nLet me know [if] it helps!"


def _fence(text: str, chance: random.Random) -> str:
    return f"Here you go:\n```{chance.choice(['json', '', 'JSON'])}\n{text}\n```\nDone."


def _unclosed(text: str, chance: random.Random) -> str:
    return text.rstrip("}] \n") if chance.random() < 0.5 else text[:-1]


def _cut(text: str, chance: random.Random) -> str:
    return text[: chance.randrange(len(text) // 3, len(text) - 2)]


def _single_quotes(text: str, chance: random.Random) -> str:
    del chance
    return repr(json.loads(text))


def _smart_quotes(text: str, chance: random.Random) -> str:
    del chance
    return re.sub(r'"((?:[^"\\]|\\[^"])*)"', r"“\1”", text)


def _trailing_commas(text: str, chance: random.Random) -> str:
    del chance
    return re.sub(r"(?<=[\"\w\]}])\s*([}\]])", r",\1", text)


def _bare_keys(text: str, chance: random.Random) -> str:
    del chance
    return re.sub(r'"(\w+)"\s*:', r"\1:", text)


def _python_words(text: str, chance: random.Random) -> str:
    del chance
    return (
        text.replace("true", "True").replace("null", "None").replace("false", "False").replace('"', '"', 1) + " # done"
    )


def _comments(text: str, chance: random.Random) -> str:
    return text.replace("{", chance.choice(["{ // a step\n", "{ /* here */ "]), 3)


def _lost_commas(text: str, chance: random.Random) -> str:
    places = [found.start() for found in re.finditer(r'(?<=["}\]]),\s', text)]
    for place in sorted(chance.sample(places, min(2, len(places))), reverse=True):
        text = f"{text[:place]}{text[place + 1 :]}"
    return text


def _raw_breaks(text: str, chance: random.Random) -> str:
    del chance
    return re.sub(r"(\w[ .,]) ?(\w)", "\\1\n\\2", text.replace("\\n", "\n"), count=2)


KINDS: dict[str, Callable[[str, random.Random], str]] = {
    "prose around it": _prose,
    "a code fence": _fence,
    "brackets not closed": _unclosed,
    "cut off in the middle": _cut,
    "single quotes": _single_quotes,
    "typographic quotes": _smart_quotes,
    "trailing commas": _trailing_commas,
    "keys without quotes": _bare_keys,
    "words of Python": _python_words,
    "comments": _comments,
    "lost commas": _lost_commas,
    "raw line breaks": _raw_breaks,
}


_TOUCHES_TEXTS = ("typographic quotes", "trailing commas", "comments", "lost commas")
"""Kinds whose damage would change brackets and quotes inside texts too, so that what was meant is not known."""


def corpus(each: int = 6, seed: int = 7) -> list[tuple[str, Any, str]]:
    """Damaged answers: the kind of damage, what was meant, and the text; none of them is JSON as it stands."""
    chance = random.Random(seed)
    found: list[tuple[str, Any, str]] = []
    for kind, damage in KINDS.items():
        for good in GOODS:
            for number in range(each):
                text = json.dumps(good, indent=[None, 2][number % 2], ensure_ascii=bool(number % 3))
                damaged = damage(text, chance)
                if not is_json(damaged) and (kind not in _TOUCHES_TEXTS or "{c}" not in text):
                    found.append((kind, good, damaged))
    return found


def real_answers() -> list[tuple[str, str]]:
    """Requests, and what a real small model said to them when it was asked for a plan without a schema."""
    kept = json.loads((Path(__file__).parent / "real_answers.json").read_text(encoding="utf-8"))
    return [(each["request"], each["answer"]) for each in kept]


def is_json(text: str) -> bool:
    """Whether a text is JSON as it stands."""
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def hostile_texts() -> list[str]:
    """Texts that would cost a careless reader much time or memory."""
    return [
        "{" * 20_000,
        "[" * 20_000,
        '{"a":' * 6_000,
        '{"a": "' + 'x" y ' * 6_000,
        "[" + '{"a": 1}' * 3_900,
        "'" * 30_000,
        "{'" * 15_000,
        "{a" * 15_000,
        "// " * 10_000,
        "{/*" * 10_000,
        '{"\\u' * 7_000,
        "x" * 999_999,
        "{" + "9" * 31_000,
    ]
