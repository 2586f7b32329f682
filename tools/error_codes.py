"""docs/errors.md, written from the error classes themselves: `python -m tools.error_codes > docs/errors.md`.

A code is a promise to programs, so a code that nobody documented must not slip in: a test compares the page with what
is written here.
"""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module

import twinraven
from twinraven.foundation import errors
from twinraven.foundation.errors import TwinRavenError

_TREE_LINE = re.compile(r"[─│ ]*([A-Z]\w+) +([A-Z_]{4,}) +(\S.*)")
_INTRODUCTION = """\
# Error codes

<!-- Written by `python -m tools.error_codes`; a test compares the two. -->

Every error that TwinRaven raises on purpose is an object `{"code", "message", "retryable", "details"}`: in answers of
calls, on the command line with `--output json`, in events and in audit entries. Programs decide by `code`, which is
stable; people read `message`; `details` carries ids and field names, never secrets.

`retryable` says that the same request may simply be sent again, under the same idempotency key. It is never true for
violations of policy, nor for a tool that somebody disabled (`TOOL_UNAVAILABLE`, else retryable). Who acts:

- **caller**: whoever sent the request corrects it;
- **operator**: whoever runs this TwinRaven or its tools looks at it;
- **model**: the agent reads the message and does something else;
- **nobody**: it passes by itself; wait and send it again.

| code | who acts | retryable | what it means | class |
|---|---|---|---|---|
"""


def error_classes() -> list[type[TwinRavenError]]:
    """Every class with a code of its own, in the order of the tree and then of the packages."""
    for module in pkgutil.walk_packages(twinraven.__path__, "twinraven."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    return [
        kind for kind in _below(TwinRavenError) if "code" in vars(kind) and kind.__module__.startswith("twinraven.")
    ]


def _below(kind: type[TwinRavenError]) -> Iterator[type[TwinRavenError]]:
    yield kind
    for child in sorted(kind.__subclasses__(), key=lambda each: (each.__module__ != errors.__name__, each.__module__)):
        yield from _below(child)


def render_page() -> str:
    """The whole page."""
    return _INTRODUCTION + "".join(f"{_row(kind)}\n" for kind in error_classes())


def meaning(kind: type[TwinRavenError]) -> str:
    """What the tree at the top of the module says, or the first line of the class's own docstring."""
    told = {name: text for name, _, text in _TREE_LINE.findall(errors.__doc__ or "")}
    own = told.get(kind.__name__) or (kind.__doc__ or "").strip().split("\n")[0].rstrip(".")
    return own[:1].lower() + own[1:]


def _row(kind: type[TwinRavenError]) -> str:
    retryable = "yes" if kind.retryable else "no"
    place = kind.__module__.removeprefix("twinraven.")
    return f"| `{kind.code}` | {kind.acts} | {retryable} | {meaning(kind)} | `{place}.{kind.__name__}` |"


if __name__ == "__main__":
    print(render_page(), end="")
