"""Gathers malformed plans of a real small model, asked without a schema, for the corpus of the repair tests.

Usage: python -m tools.real_answers [COUNT]. Starts SmolLM2 on loopback, asks it for plans as the kernel words them, and
adds what is no JSON as it stands to tests/unit/models/real_answers.json: each the request and the answer, as it came.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

from tests.servers.server_process import server_process
from tests.unit.models.damage import is_json
from tests.unit.plans.world import LOOK, RESERVE
from twinraven.plans.questions import PLANNER, ask_plan

KEPT = Path(__file__).parents[1] / "tests" / "unit" / "models" / "real_answers.json"
KEY = "loopback"
REQUESTS = (
    "Sell the lamp.",
    "Find out what a chair costs and put two aside.",
    "Compare the prices of tea and coffee, then write a short note to the customer.",
    "Reserve three umbrellas for Maria if they cost less than 10.",
    "Tell the customer where the order W1001 is.",
    "Plan a small party: drinks, plates and music.",
    "Summarise what a desk, a chair and a shelf cost together.",
    "Put the cheapest of bread, rice and pasta aside.",
)
ASKED_BY = ("", " Answer as a JSON object with the keys goal and steps.", ' Begin with {"goal":')


def main(count: int) -> None:
    """Ask until so many malformed answers are kept."""
    kept: list[dict[str, str]] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    known = {each["answer"] for each in kept}
    with server_process("real_model", KEY) as address:
        number = len(kept)
        while len(kept) < count:
            request = REQUESTS[number % len(REQUESTS)]
            answer = ask(address, request, ASKED_BY[number % len(ASKED_BY)], seed=number)
            number += 1
            if answer.strip() and not is_json(answer) and answer not in known:
                known.add(answer)
                kept.append({"request": request, "answer": answer})
                KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def ask(address: str, request: str, more: str, *, seed: int) -> str:
    """What the model says to a request for a plan."""
    question = ask_plan(request, (LOOK, RESERVE)).as_json()["messages"][-1]["content"]
    body = {
        "model": "smollm2",
        "messages": [{"role": "system", "content": PLANNER}, {"role": "user", "content": f"{question}{more}"}],
        "max_tokens": 120 + 40 * (seed % 3),
        "temperature": 0.2 + 0.2 * (seed % 4),
        "seed": seed,
    }
    asking = urllib.request.Request(  # noqa: S310 - a server of ours on loopback
        f"{address}/v1/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"},
    )
    with urllib.request.urlopen(asking, timeout=300) as answer:  # noqa: S310 - as above
        return str(json.load(answer)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
