"""Who sits at the terminal, for what is recorded with a name."""

from __future__ import annotations


def user_name() -> str:
    """The name of this process's user, or its number where it has none."""
    import os
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"user {os.getuid()}"
