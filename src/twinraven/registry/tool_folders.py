"""Locates the files of a tool: `<storage_dir>/<tool_id>/v<N>.json` and `metadata.json` beside them.

The default tenant's tools lie at the top, every other tenant's below a folder of its own, whose name begins with a
character that no tool's can.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from twinraven.foundation.canonical import content_hash
from twinraven.registry.folders import SafeFolder, open_root
from twinraven.registry.model import check_slug
from twinraven.storage import DEFAULT_TENANT

METADATA: Final = "metadata.json"
LOCKS: Final = ".locks"
_VERSION_FILE: Final = re.compile(r"v([1-9][0-9]{0,8})\.json")
_PLAIN_TENANT: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_TENANT_MARK: Final = "@"


class ToolFolders:
    """The folder of learned tools on this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @contextmanager
    def tenant(self, tenant_id: str, *, create: bool = False) -> Generator[SafeFolder | None]:
        """Provide the folder of a tenant's tools."""
        with open_root(self.root, create=create) as root:
            if root is None or tenant_id == DEFAULT_TENANT:
                yield root
                return
            with root.child(tenant_folder(tenant_id), create=create) as folder:
                yield folder

    @contextmanager
    def tool(self, tenant_id: str, tool_id: str, *, create: bool = False) -> Generator[SafeFolder | None]:
        """Provide the folder of one tool."""
        check_slug(tool_id)
        with self.tenant(tenant_id, create=create) as tenant:
            if tenant is None:
                yield None
                return
            with tenant.child(tool_id, create=create) as folder:
                yield folder

    @contextmanager
    def locks(self, tenant_id: str, *, create: bool = False) -> Generator[SafeFolder | None]:
        """Provide the folder of a tenant's lock files."""
        with self.tenant(tenant_id, create=create) as tenant:
            if tenant is None:
                yield None
                return
            with tenant.child(LOCKS, create=create) as folder:
                yield folder


def tenant_folder(tenant_id: str) -> str:
    """Return the folder's name; an id that could mean something to a file system is replaced by its hash."""
    plain = tenant_id if _PLAIN_TENANT.fullmatch(tenant_id) else content_hash(tenant_id.encode("utf-8", "replace"))
    return f"{_TENANT_MARK}{plain}"


def is_tenant_folder(name: str) -> bool:
    return name.startswith(_TENANT_MARK)


def definition_path(tenant_id: str, tool_id: str, version: int) -> str:
    """Return a version's file, relative to the storage folder."""
    inside = "" if tenant_id == DEFAULT_TENANT else f"{tenant_folder(tenant_id)}/"
    return f"{inside}{tool_id}/{version_file(version)}"


def version_file(version: int) -> str:
    return f"v{version}.json"


def version_number(name: str) -> int | None:
    """Return the version whose file this is, if it is one's."""
    found = _VERSION_FILE.fullmatch(name)
    return None if found is None else int(found[1])
