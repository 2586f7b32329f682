"""Plans against a LangGraph loop with its SQLite saver and pydantic-ai without persistence, with one scripted model.

Every contender asks the same scripted model over HTTP, which runs in a process of its own. TwinRaven records each
question and answer as a call, keeps each cycle, and could be killed at any moment; LangGraph keeps each cycle;
pydantic-ai nothing. LangGraph takes part twice: with the model client of its documentation, which is what its users
run, and with http.client, which has no retries, no limits and no event loop: what is left then is the saver.
Processor time is the figure, because neighbours cannot change it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.harness import HERE, Contender, Harness, Row, peer_python
from bench.plan_sizes import ANSWER, CYCLES


def measure(harness: Harness) -> list[Row]:
    with scripted_model() as url:
        taken = harness.sample(
            {
                "TwinRaven": contender([sys.executable, "-m", "bench.plans_ours"], url),
                "LangGraph and ChatOpenAI": contender(_peer("langgraph_openai"), url),
                "LangGraph and http.client": contender(_peer("langgraph"), url),
                "pydantic-ai": contender(_peer("pydantic_ai"), url),
            }
        )
    name = f"a cycle of a plan, CPU, {CYCLES} in order"
    peers = ("LangGraph and ChatOpenAI", "LangGraph and http.client", "pydantic-ai")
    return [harness.row(name, taken, ours="TwinRaven", against=peer, aim=1.0) for peer in peers]


def _peer(name: str) -> list[str]:
    return [str(peer_python(name)), str(HERE / "plans_peers.py"), name]


def contender(command: list[str], url: str) -> Contender:
    """Processor seconds of one plan, by a process of its own."""

    def once() -> float:
        with tempfile.TemporaryDirectory() as folder:
            full = [*command, url, folder]
            done = subprocess.run(full, cwd=HERE.parent, check=True, capture_output=True, text=True)
        return float(json.loads(done.stdout.splitlines()[-1])["cpu"])

    return once


@contextmanager
def scripted_model() -> Generator[str]:
    """The address of a model that always says the same."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "answers.json"
        script.write_text(json.dumps([ANSWER]))
        command = [sys.executable, "-m", "twinraven", "model", "serve", str(script), "--http", "127.0.0.1:0"]
        log = Path(folder) / "log"
        with log.open("w") as stderr, subprocess.Popen(command, stderr=stderr, text=True) as server:
            try:
                while "listens on" not in log.read_text():
                    assert server.poll() is None, log.read_text()
                yield log.read_text().splitlines()[0].split()[-1]
            finally:
                server.terminate()
