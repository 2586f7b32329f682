"""Names the person at the terminal, for what is recorded with an actor."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twinraven.foundation.actors import Actor


def user_name() -> str:
    """The name of this process's user, or its number where it has none."""
    import os
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # a container's user need not have a name
        return f"user {os.getuid()}"


def operator() -> Actor:
    """The person at the terminal, as an actor."""
    from twinraven.foundation.actors import person

    return person(user_name())
