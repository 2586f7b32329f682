"""Runs policy checks that are Python functions, as a child process of the judge.

Imports the functions that it is started with and writes an empty line. Then it reads two lines for each check, the
function and what it judges, and writes one line with its answer. What a function prints goes to stderr, so that it
cannot be taken for an answer.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

import orjson


def answer(name: str, subject: Any) -> dict[str, Any]:
    """Call `module:function` with what is judged; whatever goes wrong is an error and no answer."""
    try:
        module, _, attribute = name.partition(":")
        said = getattr(import_module(module), attribute)(subject)
        orjson.dumps(said)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code: whatever it raises denies
        return {"error": f"{name} raised {type(error).__name__}: {error}"}
    return {"answer": said}


def main(names: Sequence[str]) -> None:
    """Answer requests until the parent is gone."""
    out, sys.stdout = sys.stdout.buffer, sys.stderr
    lines = sys.stdin.buffer
    for name in names:
        with suppress(Exception, SystemExit):  # what cannot be imported is told when it is asked for
            import_module(name.partition(":")[0])
    out.write(b"\n")
    out.flush()
    while (asked := lines.readline()) and (subject := lines.readline()):
        out.write(orjson.dumps(answer(orjson.loads(asked)["function"], orjson.loads(subject))) + b"\n")
        out.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
