"""Writes publications and messages as files into a folder: the provider for a laptop, for tests and for hand-over.

A file's name is the key, and a file that is there is never written again: it comes into being whole, by a hard link, so
that of two writers one finds it there.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from twinraven.effects.errors import ProviderUnreachable
from twinraven.effects.model import EffectKind, EffectOrder, ProviderAnswer
from twinraven.foundation.canonical import canonical_json
from twinraven.foundation.ids import new_id


class FileOutbox:
    """A folder that effects are written into."""

    kinds: frozenset[EffectKind] = frozenset({"publish", "message"})
    recognises_keys = True
    can_be_asked = True

    def __init__(self, folder: Path, *, name: str = "outbox") -> None:
        self.name = name
        self._folder = folder

    async def send(self, order: EffectOrder) -> ProviderAnswer:
        try:
            return await asyncio.to_thread(self._write, order)
        except OSError as error:
            raise ProviderUnreachable(
                f"the outbox {str(self._folder)!r} cannot be written: {error.strerror}", provider=self.name
            ) from error

    async def find(self, order: EffectOrder) -> ProviderAnswer | None:
        path = self._path(order)
        return self._answer(path) if await asyncio.to_thread(path.exists) else None

    def _write(self, order: EffectOrder) -> ProviderAnswer:
        path = self._path(order)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.parent / f".{new_id()}"
        said = {"effect_id": order.effect_id, "correlation_id": order.correlation_id, "request": order.request}
        try:
            with draft.open("xb") as file:
                file.write(canonical_json(said) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)
            except FileExistsError:
                return self._answer(path)
        finally:
            draft.unlink(missing_ok=True)
        _sync_folder(path.parent)
        return self._answer(path)

    def _path(self, order: EffectOrder) -> Path:
        return self._folder / order.tenant_id / order.kind / f"{order.key}.json"

    def _answer(self, path: Path) -> ProviderAnswer:
        return ProviderAnswer(path.stem, {"file": str(path.relative_to(self._folder))})


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, not only the file behind it."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
