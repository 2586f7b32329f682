"""Finds a TwinRaven home: the folder that holds the database, the keys and the learned tools.

A home is found as git finds its own, from the working directory upwards, or named by `TWINRAVEN_HOME` or a caller.
People name the project rather than the `.twinraven` in it, so a named folder is resolved: the home itself, else the
home inside it. Any other folder is refused. Taking it would put a second, empty database beside somebody's code and
answer "no sessions".
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from twinraven.foundation.errors import NotFound

HOME_NAME = ".twinraven"
HOME_VARIABLE = "TWINRAVEN_HOME"

_DATABASE, _KEYS, _IGNORE = "twinraven.db", "keys", ".gitignore"


def find_home(start: Path, env: Mapping[str, str]) -> Path | None:
    """Find the home that `TWINRAVEN_HOME` names, else the nearest `.twinraven` folder from `start` upwards."""
    beginning = start.expanduser().absolute()
    stated = env.get(HOME_VARIABLE)
    if stated:
        return beginning / Path(stated).expanduser()
    for folder in (beginning, *beginning.parents):
        if _is_folder(folder / HOME_NAME):
            return folder / HOME_NAME
    return None


def is_home(folder: Path) -> bool:
    """Tell whether a folder is a home: by its name, or by what only `twinraven init` and first use put there."""
    if not _is_folder(folder):
        return False
    if folder.name == HOME_NAME or (folder / _DATABASE).is_file() or _is_folder(folder / _KEYS):
        return True
    try:
        return (folder / _IGNORE).read_bytes() == b"*\n"
    except OSError:
        return False


def resolve_home(named: Path, *, stated_by: str = "the caller") -> Path:
    """Resolve a named folder to its home, or raise NotFound with the command that makes one."""
    folder = named.expanduser().absolute()
    # A project can hold a stray database beside its home: where there is a `.twinraven`, that is the home.
    inner = folder / HOME_NAME
    if folder.name != HOME_NAME and _is_folder(inner):
        return inner
    if is_home(folder):
        return folder
    why = f"there is no {HOME_NAME} in it" if _is_folder(folder) else "there is no such folder"
    raise NotFound(f"no TwinRaven home at {folder}, which {stated_by} names: {why}", fix=f"twinraven init {folder}")


def existing_home(named: Path | None, env: Mapping[str, str] = os.environ) -> Path:
    """Resolve the home that is named, else found; where there is none, raise NotFound."""
    if named is not None:
        return resolve_home(named)
    here = Path.cwd()
    found = find_home(here, env)
    if found is None:
        raise NotFound(f"no TwinRaven home found from {here} upwards; run `twinraven init`", fix="twinraven init")
    return resolve_home(found, stated_by=HOME_VARIABLE)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False
