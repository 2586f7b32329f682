"""Guessing what a tool does to the world from its name, when nobody said.

A guess is marked as one (`inferred`): it may serve a backtest, but nothing is promoted on it until a person confirms.
"""

from __future__ import annotations

import re

from twinraven.catalog.model import Effect

_READ_VERBS = """
    get find list search read look lookup fetch query check show describe count calculate compute view browse
    inspect summarize preview validate verify compare estimate track think explain select retrieve load peek
    exists resolve translate parse extract convert classify rank detect scan stat head cat grep diff status
"""
_WRITE_VERBS = """
    create update delete remove cancel modify set add insert send post put patch write issue refund exchange return
    transfer pay charge book order buy place submit publish upload move rename archive close open start stop run
    execute exec deploy restart approve reject assign grant revoke reset clear drop append save store push merge
    commit register subscribe unsubscribe schedule notify email message reply edit change enable disable kill
    apply install uninstall
"""
_READ, _WRITE = frozenset(_READ_VERBS.split()), frozenset(_WRITE_VERBS.split())
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def infer_effect(tool_id: str) -> Effect:
    """Read if the name's first known verb reads, write if it writes, else unknown."""
    for word in _WORDS.findall(tool_id):
        verb = word.lower()
        if verb in _READ:
            return Effect.READ
        if verb in _WRITE:
            return Effect.WRITE
    return Effect.UNKNOWN
