"""The package can be imported where Unix's own modules are missing; what needs them says so when it is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parents[2] / "src" / "twinraven"
_MODULES = frozenset(("fcntl", "grp", "posix", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty"))
_MEMBERS = frozenset(
    (
        *("os.O_CLOEXEC", "os.O_DIRECTORY", "os.O_NOFOLLOW", "os.O_NONBLOCK", "os.fork", "os.register_at_fork"),
        *("os.getuid", "os.geteuid", "os.getgid", "os.uname", "signal.SIGKILL", "signal.SIGHUP", "signal.SIGUSR1"),
        *("signal.SIGCHLD", "signal.SIGALRM", "signal.SIGQUIT", "socket.AF_UNIX"),
    )
)


def test_no_module_needs_unix_to_be_imported() -> None:
    """Nothing that runs on import names a module or a member that only Unix has."""
    found = [
        f"{path.relative_to(_PACKAGE)}:{line}: {name}"
        for path in sorted(_PACKAGE.rglob("*.py"))
        for line, name in _unix_only(ast.parse(path.read_text()))
    ]
    assert found == []


def test_the_search_sees_what_it_is_meant_to_see() -> None:
    source = (
        "import fcntl, os\nif hasattr(os, 'fork'):\n    os.fork()\nFLAGS = os.O_NOFOLLOW\n"
        "def later():\n    import pwd\nclass Here:\n    from resource import getrusage\n"
    )
    assert list(_unix_only(ast.parse(source))) == [(1, "fcntl"), (4, "os.O_NOFOLLOW"), (8, "resource")]


def _unix_only(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """What runs on import: everything outside functions, but not behind a question for the platform."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _asks_for_platform(node):
            continue
        if isinstance(node, ast.Import):
            yield from ((node.lineno, each.name) for each in node.names if each.name in _MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            yield node.lineno, node.module
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in _MEMBERS:
            yield node.lineno, ast.unparse(node)
        else:
            yield from _unix_only(node)


def _asks_for_platform(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and any(
        name in ast.unparse(node.test) for name in ("hasattr(", "sys.platform", "TYPE_CHECKING")
    )
