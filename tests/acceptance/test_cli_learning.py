"""Learning from the command line: mine, look, draft, judge, and the backtest anybody runs first."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli import Shell
from tests.traces import GOLDEN
from tests.unit.huginn.billing_world import INVOICE, LOAD, LOOKUP, billing_scripts, lines_of

TOOLS = """
from typing import Any
from twinraven import tool

@tool(effect="read")
def search_customer(email: str) -> dict[str, Any]:
    "Find a customer by e-mail."
    return {"hits": 1, "customer": {"id": f"C-{email}"}}

@tool(effect="read")
def load_customer(customer_id: str, detail: str) -> dict[str, Any]:
    "A customer with its invoices."
    return {"id": customer_id, "plan": "pro", "invoices": [{"id": f"{customer_id}-1"}, {"id": f"{customer_id}-2"}]}

@tool(effect="read")
def get_invoice(invoice_id: str) -> dict[str, Any]:
    "One invoice."
    return {"id": invoice_id, "total": 7, "lines": []}
"""

Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A home with three tools, and a file of what agents did with them."""
    (tmp_path / "billing_tools.py").write_text(TOOLS)
    (tmp_path / "twinraven.yaml").write_text("tools:\n  modules: [billing_tools]\n")
    (tmp_path / "calls.jsonl").write_bytes(lines_of(billing_scripts(400, seed=41)))
    return tmp_path


@pytest.fixture
def twinraven(project: Path) -> Run:
    """The real command, in that project."""

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[bytes]:
        ended = Shell(project).run(*arguments)
        assert ended.code == code, ended.err
        return subprocess.CompletedProcess(arguments, ended.code, ended.out, ended.err.encode())

    return run


def parsed(done: subprocess.CompletedProcess[bytes]) -> Any:
    return json.loads(done.stdout)


@pytest.mark.req("TR-11")
def test_mining_the_log_gives_chains_with_samples(twinraven: Run) -> None:
    """`mine` prints chains with the seed's fields and a value, stores them, and samples lead to real events."""
    twinraven("init")
    twinraven("import", "calls.jsonl")
    chains = parsed(twinraven("mine", "--output", "json"))
    best = chains[0]
    assert best["tools"][:2] == [LOOKUP, LOAD]
    fields = {"chain_id", "support", "confidence", "avg_latency_ms", "failure_rate", "sample_event_ids", "value"}
    assert fields | {"discovered_at", "mining_config"} <= set(best)
    assert [chain["value"] for chain in chains] == sorted((chain["value"] for chain in chains), reverse=True)
    sample = parsed(twinraven("events", "show", best["sample_event_ids"][0], "--output", "json"))
    assert sample["tool_id"] == LOOKUP
    assert parsed(twinraven("chains", "show", best["chain_id"][:10], "--output", "json")) == best
    listed = parsed(twinraven("chains", "list", "--limit", "500", "--output", "json"))
    assert best["chain_id"] in [chain["chain_id"] for chain in listed]
    assert len(parsed(twinraven("chains", "list", "--limit", "1", "--output", "json"))) == 1


@pytest.mark.req("TR-15", "TR-19")
def test_a_chain_is_drafted_and_judged(twinraven: Run) -> None:
    """`synthesize` makes a numbered draft of a mined chain, `validate` proves it on sessions it did not see, twice."""
    twinraven("init")
    twinraven("import", "calls.jsonl")
    chains = parsed(twinraven("mine", "--collapse-repeats", "--output", "json"))
    chain = next(chain for chain in chains if chain["tools"] == [LOOKUP, LOAD, INVOICE])
    draft = parsed(twinraven("synthesize", chain["chain_id"], "--output", "json"))
    assert (draft["version"], draft["status"], draft["source_chain_id"]) == (1, "draft", chain["chain_id"])
    verdict = parsed(twinraven("validate", draft["tool_id"], "--output", "json"))
    assert verdict["passed"]
    assert verdict["sessions_replayed"] > 30
    assert b"verdict            passed" in twinraven("validate", draft["tool_id"]).stdout


def test_learning_twice_without_new_evidence_drafts_once(twinraven: Run) -> None:
    """A round ends with what awaits a decision; the next one on the same log finds only what is known."""
    twinraven("init")
    twinraven("import", "calls.jsonl")
    first = parsed(twinraven("learn", "--output", "json"))
    assert "awaiting" in [proposal["novelty"] for proposal in first["proposals"]]
    second = parsed(twinraven("learn", "--output", "json"))
    assert {proposal["novelty"] for proposal in second["proposals"]} == {"known"}
    waiting = second["proposals"][0]["tool_id"]
    assert twinraven("learn").stdout.decode().endswith(f"awaiting a decision:\n  twinraven approve {waiting}\n")


def test_a_backtest_needs_nothing_but_a_file(twinraven: Run, project: Path) -> None:
    """Without a home, `backtest FILE` prints the agreed fields, and its uses cover every tested session."""
    body = parsed(twinraven("backtest", "calls.jsonl", "--split", "task", "--uses", "uses.jsonl", "--output", "json"))
    assert set(body) == {
        "sessions_learned",
        "sessions_tested",
        "tools",
        "assistant_turns",
        "assistant_turns_saved",
        "assistant_turns_saved_by_batch",
        "assistant_turns_saved_by_learned_tools",
        "built_in_batch",
        "ceiling",
        "middle",
        "plain_share",
        "tool_turns",
        "tool_turns_saved",
        "calls",
        "extra_calls",
    }
    assert set(body["tools"][0]) == {
        "tool_id",
        "chain",
        "shape",
        "uses",
        "misses",
        "turns_saved",
        "extra_calls",
    }
    uses = [json.loads(line) for line in (project / "uses.jsonl").read_bytes().splitlines()]
    assert len(uses) == body["sessions_tested"]
    assert sum(len(use["turns_saved"]) for item in uses for use in item["uses"]) == body["assistant_turns_saved"]
    assert not (project / ".twinraven").exists()


def test_a_repeated_backtest_reports_mean_and_spread(twinraven: Run) -> None:
    """With `--repeat N` the same backtest runs on N splits; the mean, the spread and each run are told."""
    body = parsed(twinraven("backtest", "calls.jsonl", "--repeat", "3", "--output", "json"))
    shares = [run["assistant_turns_saved"] / run["assistant_turns"] for run in body["runs"]]
    assert len(set(shares)) > 1
    assert body["saved_share"]["mean"] == pytest.approx(sum(shares) / 3)
    assert body["saved_share"]["spread"] > 0
    assert "Over 3 splits" in twinraven("backtest", "calls.jsonl", "--repeat", "3").stdout.decode()


def test_a_backtest_for_people_says_what_it_assumes(twinraven: Run) -> None:
    """The table comes with the assumption, a picture of each chain, and money."""
    text = twinraven("backtest", "calls.jsonl").stdout.decode()
    assert "A ceiling: it assumes that the agent takes a tool wherever it fits" in text
    assert "─customer_id→ load_customer ─invoices[*]→ get_invoice ×n" in text
    assert "money" in text


def test_extra_calls_have_a_budget(twinraven: Run, tmp_path: Path) -> None:
    """`learn` stays within `learning.max_extra_calls` and says what that keeps out; `backtest` has an option."""
    careful = twinraven("backtest", "calls.jsonl", "--max-extra-calls", "0").stdout.decode()
    assert "extra 0 (0.0%)" in careful
    assert "get_invoice ×n" not in careful
    twinraven("init")
    twinraven("import", "calls.jsonl")
    settings = "tools:\n  modules: [billing_tools]\nlearning:\n  max_extra_calls: 0\n"
    (tmp_path / "twinraven.yaml").write_text(settings)
    learned = json.loads(twinraven("learn", "--output", "json").stdout)
    assert all("get_invoice" not in proposal["tool_id"] for proposal in learned["proposals"])
    reasons = [left["reason"] for left in learned["refused"] if left["tools"] == [LOOKUP, LOAD, INVOICE]]
    assert reasons == ["proven, but with it extra calls would pass 0% of all calls"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"{broken\n" * 3, "no known format"),
        (b'{"messages": []}', "no call was understood"),
        (b"[]", "the first line is an empty list"),
        (b"{}", "the first line is an empty object"),
        (b"[3]", "the first line holds integer where an object is expected"),
    ],
)
def test_a_file_without_calls_is_an_error(twinraven: Run, project: Path, content: bytes, said: str) -> None:
    """A file that is empty, broken or without calls is bad input, and what was seen is told."""
    (project / "odd.jsonl").write_bytes(content)
    assert said in twinraven("backtest", "odd.jsonl", code=2).stderr.decode()


def test_a_backtest_reads_what_can_be_imported(twinraven: Run, project: Path) -> None:
    """Chat messages and spans are backtested as they are, several files at once."""
    for name in ("tau-bench.json", "openinference-langchain.json"):
        (project / name).write_bytes((GOLDEN / name).read_bytes())
    done = twinraven("backtest", "tau-bench.json", "openinference-langchain.json", "--output", "json")
    body = json.loads(done.stdout)
    assert body["sessions_learned"] + body["sessions_tested"] == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("backtest", "missing.jsonl"), "cannot read"),
        (("mine", "--min-support", "7"), "must lie above 0"),
        (("mine", "--max-gap-ms", "5"), "only gsp bounds the gap"),
        (("synthesize", "ffff"), "no chain"),
        (("validate", "nobody"), "no draft"),
    ],
)
def test_bad_input_names_what_is_wrong(twinraven: Run, arguments: tuple[str, ...], said: str) -> None:
    """Each mistake exits with 2 and words that name it."""
    twinraven("init")
    assert said in twinraven(*arguments, code=2).stderr.decode()


def test_a_backtest_of_a_file_reads_bounded_sessions(project: Path, twinraven: Run) -> None:
    """Of a session with more calls than learning reads, a backtest takes the first ones and says so."""
    line: dict[str, Any] = {
        "session_id": "long",
        "tool": "get_invoice",
        "output": {},
        "llm_turn": None,
        "task_id": None,
    }
    calls = [{**line, "seq": number, "params": {"invoice_id": f"i{number}"}} for number in range(2_001)]
    calls += [{**line, "session_id": f"short {number}", "seq": 0, "params": {}} for number in range(20)]
    (project / "long.jsonl").write_text("".join(json.dumps(call) + "\n" for call in calls))
    told = twinraven("backtest", "long.jsonl").stderr.decode()
    assert "of 1 sessions, which are longer, the first 2,000 calls were read" in told
