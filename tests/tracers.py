"""Tracers that harm a process at one of its system calls."""

from __future__ import annotations

import os
import shutil

import pytest


def injecting(calls: str, harm: str, when: int | str, *, threads: bool = False) -> list[str]:
    """A tracer that does `harm` at one of these system calls (`9`) or from one on (`9+`), if asked in all threads."""
    if shutil.which("strace") is None:
        pytest.skip("faults are injected with strace, which is not installed here")
    inject = f"inject={calls}:{harm}:when={when}"
    # Without -f a tracer may sleep through everything that other threads do.
    return ["strace", *(["-f"] if threads else []), "-qq", "-o", os.devnull, "-e", f"trace={calls}", "-e", inject]
