"""Mirrors a tool's rows into its files.

The rows are the truth. A new version's file is written before its row, so that a full disk refuses the version and not
half of it; everything else is written from the rows after they are committed. What a writer meant to make is noted in
its lock beforehand, so that after a crash exactly that is taken away again if no row asks for it. Files that nobody
here made are never removed on the way; `verify` reports them.
"""

from __future__ import annotations

from collections.abc import Collection

from twinraven.foundation.errors import Conflict
from twinraven.registry.folders import SafeFolder, is_temporary
from twinraven.registry.metadata import encode_metadata, same_state
from twinraven.registry.model import RegisteredTool, ToolVersion
from twinraven.registry.tool_folders import METADATA, ToolFolders, version_file, version_number


class Mirror:
    """Writes tools to their folders. The caller holds the tool's lock."""

    def __init__(self, places: ToolFolders) -> None:
        self._places = places

    def refuse_strangers(self, tenant_id: str, version: ToolVersion, known: RegisteredTool | None) -> None:
        """Raise if a file that the rows do not know stands where a new version's is to be written."""
        with self._places.tool(tenant_id, version.tool_id) as folder:
            if folder is None:
                return
            mine = version_file(version.version)
            for name in folder.names():
                if name == mine or (known is None and _is_ours(name)):
                    raise Conflict(
                        f"{folder.path / name} is there already, but the database does not know it; take it in with "
                        "`twinraven registry verify --rebuild rows`, or move it away",
                        tool_id=version.tool_id,
                    )

    def write_version(self, tenant_id: str, version: ToolVersion) -> None:
        """Write the file of a new version."""
        with self._places.tool(tenant_id, version.tool_id, create=True) as folder:
            assert folder is not None
            folder.write(version_file(version.version), version.text.encode())

    def sync(self, tenant_id: str, tool_id: str, tool: RegisteredTool | None, leftovers: Collection[str] = ()) -> None:
        """Make the folder say what the rows say: write what is missing, take away what was left over."""
        with self._places.tool(tenant_id, tool_id, create=tool is not None) as folder:
            if folder is None:
                return
            wanted = set[str]() if tool is None else {METADATA, *(version_file(each.version) for each in tool.versions)}
            for name in folder.names():
                if is_temporary(name) or (name in leftovers and name not in wanted and _is_ours(name)):
                    folder.remove(name)
            if tool is not None:
                write_missing(folder, tool)
                return
        with self._places.tenant(tenant_id) as tenant:
            if tenant is not None:
                tenant.remove_child(tool_id)


def write_missing(folder: SafeFolder, tool: RegisteredTool) -> None:
    """Write version files that are not there, and the metadata where it says something else."""
    for version in tool.versions:
        name = version_file(version.version)
        if folder.read(name) is None:
            folder.write(name, version.text.encode())
    body = encode_metadata(tool)
    found = folder.read(METADATA)
    if found is None or not same_state(found, body):
        folder.write(METADATA, body)


def _is_ours(name: str) -> bool:
    return name == METADATA or version_number(name) is not None
