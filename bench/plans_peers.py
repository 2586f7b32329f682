"""The peers of the benchmark of plans, run by the Python of their own environment.

Usage: plans_peers.py langgraph|langgraph_openai|pydantic_ai MODEL_URL FOLDER. Prints JSON: processor and wall-clock
seconds of the work alone. LangGraph keeps every cycle with its SQLite saver. It asks the model by Python's own
http.client, which costs next to nothing and which no agent uses, or by the client of its own documentation;
pydantic-ai asks by its own and keeps nothing.
"""

# pyright: basic
from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from plan_sizes import CYCLES  # pyright: ignore[reportImplicitRelativeImport]


def run_langgraph(url: str, folder: Path) -> dict[str, float]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def ask(text: str) -> str:
        body = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": text}]})
        connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
        return json.loads(connection.getresponse().read())["choices"][0]["message"]["content"]

    return _loop(ask, folder)


def run_langgraph_openai(url: str, folder: Path) -> dict[str, float]:
    from langchain_openai import ChatOpenAI  # pyright: ignore[reportMissingImports]

    model = ChatOpenAI(model="scripted", base_url=url, api_key="none")
    return _loop(lambda text: model.invoke(text).content, folder)


def _loop(ask: Callable[[str], str], folder: Path) -> dict[str, float]:
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver  # pyright: ignore[reportMissingImports]
    from langgraph.graph import END, START, StateGraph  # pyright: ignore[reportMissingImports]
    from typing_extensions import TypedDict

    class State(TypedDict):
        done: int
        wanted: int
        results: list[str]

    def think(state: State) -> dict[str, Any]:
        said = ask(f"Goal: Think.\nStep {state['done'] + 1}: Think.\n{json.dumps(state['results'])}")
        return {"done": state["done"] + 1, "results": [*state["results"], said]}

    graph = StateGraph(State)
    graph.add_node("think", think)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", lambda state: END if state["done"] == state["wanted"] else "think")
    file = sqlite3.connect(folder / "saver.db", check_same_thread=False)
    file.execute("PRAGMA journal_mode=WAL")
    file.execute("PRAGMA synchronous=FULL")
    saver = SqliteSaver(file)
    saver.setup()
    flow = graph.compile(checkpointer=saver)

    def once(thread: str, wanted: int) -> None:
        config = {"configurable": {"thread_id": thread}, "recursion_limit": CYCLES + 10}
        flow.invoke({"done": 0, "wanted": wanted, "results": []}, config, durability="sync")

    once("first", 2)
    return timed(lambda: once("second", CYCLES))


def run_pydantic_ai(url: str, folder: Path) -> dict[str, float]:
    del folder
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="none")))

    def work(cycles: int) -> None:
        results: list[str] = []
        for number in range(cycles):
            said = agent.run_sync(f"Goal: Think.\nStep {number + 1}: Think.\n{json.dumps(results)}")
            results.append(said.output)

    work(2)
    return timed(lambda: work(CYCLES))


def timed(work: Any) -> dict[str, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


if __name__ == "__main__":
    run = {
        "langgraph": run_langgraph,
        "langgraph_openai": run_langgraph_openai,
        "pydantic_ai": run_pydantic_ai,
    }[sys.argv[1]]
    print(json.dumps(run(sys.argv[2], Path(sys.argv[3]))))
