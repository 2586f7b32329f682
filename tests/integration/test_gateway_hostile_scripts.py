"""Scripts that want out, or want everything: stopped, recorded with a stable code, and told nothing of the host."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway_modes import code_of, error_of, open_house, text_of, value_of
from twinraven.catalog import RUN_CODE

LIMITS = {
    "max_seconds": 5.0,
    "max_cpu_seconds": 0.3,
    "max_calls": 20,
    "max_memory_bytes": 8_388_608,
    "max_depth": 50,
    "max_output_bytes": 1_000,
    "max_print_bytes": 100,
}
# A slow machine meets no limit of time before the one that a script is about.
PATIENT = LIMITS | {"max_seconds": 300.0, "max_cpu_seconds": 120.0}
ESCAPES = (
    "open('/etc/passwd').read()",
    "import os\nos.environ['HOME']",
    "import os\nos.listdir('/')",
    "import os\nos.system('id')",
    "from pathlib import Path\nPath('/etc/passwd').read_text()",
    "import subprocess",
    "import socket",
    "import ctypes",
    "import importlib",
    "__import__('os')",
    "().__class__.__bases__[0].__subclasses__()",
    "getattr((), '__class__')",
    "get_order.__globals__",
    "eval('__import__(\"os\")')",
    "exec('import subprocess')",
    "import sys\nsys.modules",
    "globals()",
    "raise SystemExit(3)",
    "raise KeyboardInterrupt()",
    "breakpoint()",
    "input()",
    "def f(:",
    "\x00",
    "lambda: 1 +",
    "class A: pass\nA.x.y",
    "b'bytes'",
)
GREEDY = {
    "while True: pass": "code.max_cpu_seconds",
    "x = 0\nfor i in range(10**12): x += i": "code.max_cpu_seconds",
    "import re\nwhile True: re.match('(a+)+$', 'a' * 30 + 'b')": "code.max_cpu_seconds",
    "while True:\n    try:\n        while True: pass\n    except BaseException: pass": "code.max_cpu_seconds",
    "'a' * 10**10": "code.max_memory_bytes",
    "x = []\nwhile True: x.append('a' * 1000)": "code.max_memory_bytes",
    "2 ** 10**9": "code.max_memory_bytes",
    "x = [0]\nwhile True: x = x + x": "code.max_memory_bytes",
    "def f(n): return f(n + 1)\nf(0)": "code.max_depth",
    "for i in range(10**5): get_order(order_id='x')": "code.max_calls",
    "import asyncio\nawait asyncio.gather(*[get_order(order_id='x') for i in range(100)])": "code.max_calls",
    "for i in range(10**5):\n    try: get_order(order_id='gone')\n    except BaseException: pass": "code.max_calls",
    "while True: search_tools('x')": "code.max_calls",
    "'a' * 5000": "code.max_output_bytes",
    "import time\nfor i in range(100): time.sleep(10)": "code.max_seconds",
    "import asyncio\nawait asyncio.sleep(10**9)\nawait asyncio.sleep(10**9)": "code.max_seconds",
}


def secrets_of_the_host() -> Iterator[str]:
    yield "root:x:"
    yield str(Path(__file__).parent)
    yield "site-packages"
    yield from (value for value in os.environ.values() if len(value) > 8)


async def test_what_wants_out_fails_and_tells_nothing_of_the_host(tmp_path: Path) -> None:
    """No file, module, environment or host object is reached; each attempt is a failed call in the log."""
    async with open_house(tmp_path, "code", code=PATIENT) as house:
        for script in ESCAPES:
            answer = await house.run(script)
            assert code_of(answer) in ("SCRIPT_FAILED", "VALIDATION_FAILED"), (script, answer)
            said = f"{text_of(answer)} {answer.meta}"
            assert [secret for secret in secrets_of_the_host() if secret in said] == [], script
        recorded = [event for event in await house.events() if event.tool_id == RUN_CODE]
        assert len(recorded) == len(ESCAPES)
        assert all(event.raised for event in recorded)
        assert await house.result("get_order(order_id='W1')['total']") == 2


@pytest.mark.parametrize("script", GREEDY)
async def test_what_wants_everything_is_stopped_at_its_limit(tmp_path: Path, script: str) -> None:
    """Endless loops, memory bombs, recursion, floods of calls and of output end with the limit's name; others go on."""
    limit = GREEDY[script].removeprefix("code.")
    async with open_house(tmp_path, "code", code=PATIENT | {limit: LIMITS[limit]}) as house:
        answer = await house.run(script)
        assert code_of(answer) == "SCRIPT_STOPPED", answer
        assert error_of(answer)["details"]["limit"] == GREEDY[script]
        (event,) = [event for event in await house.events() if event.tool_id == RUN_CODE]
        assert (event.raised, event.error_code) == (True, "SCRIPT_STOPPED")
        assert await house.result("get_order(order_id='W1')['total']") == 2


async def test_what_is_printed_is_kept_up_to_its_limit(tmp_path: Path) -> None:
    """The beginning of a flood of prints is kept, and how much more there was is said."""
    async with open_house(tmp_path, "code", code=PATIENT) as house:
        answer = await house.run("for i in range(1000): print('abcdefghi')")
        printed = value_of(answer)["printed"]
        assert printed.startswith("abcdefghi\n")
        assert printed.endswith("[9900 bytes more were printed]")


async def test_a_secret_of_the_vault_is_redacted_in_what_is_kept_of_a_script(tmp_path: Path) -> None:
    """A script that carries a known secret is recorded without it, and its error does not repeat it."""
    secret = "sk-very-secret-value-17"
    async with open_house(tmp_path, "code") as house:
        await house.raven.vault.create("default", "local", name="service", type="api_key", value=secret)
        answer = await house.run(f"raise ValueError({secret!r})")
        assert code_of(answer) == "SCRIPT_FAILED"
        assert secret not in text_of(answer)
        assert secret not in str([event.as_json() for event in await house.events()])
