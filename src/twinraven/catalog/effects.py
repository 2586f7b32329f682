"""Guessing what a tool does to the world from its name, when nobody said.

A guess is marked as one (`inferred`): it may serve a backtest, but nothing is promoted on it until a person confirms.
When in doubt the guess is the dangerous one: a name that reads *and* writes (`get_or_create_user`) writes, and a verb
that goes both ways (`check_in_guest`) is unknown.
"""

from __future__ import annotations

import re

from twinraven.catalog.model import Effect

_READ_VERBS = """
    get find list search read look lookup fetch query check show describe count calculate compute view browse
    inspect summarize preview validate verify compare estimate track think explain select retrieve load peek
    translate parse extract classify rank detect scan grep suggest recommend
"""
_WRITE_VERBS = """
    create update delete remove cancel modify set add insert send post put patch write issue refund exchange return
    transfer pay charge book order buy place submit publish upload move rename archive close open start stop run
    execute exec deploy restart approve reject assign grant revoke reset clear drop append save store push merge
    commit register subscribe unsubscribe schedule notify email message reply edit change enable disable kill
    apply install uninstall resolve replace sync import release lock unlock
"""
_READ, _WRITE = frozenset(_READ_VERBS.split()), frozenset(_WRITE_VERBS.split())
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_JOINTS = ("and", "or", "then")
_TURNING = ("in", "out", "off", "up")
"""A read verb before one of these is another verb, as in check in; look up still reads."""


def infer_effect(tool_id: str) -> Effect:
    """Write if any part of the name writes, read if its first verb reads, else unknown."""
    words = [word.lower() for word in _WORDS.findall(tool_id)]
    parts: list[list[str]] = [[]]
    for word in words:
        if word in _JOINTS:
            parts.append([])
        else:
            parts[-1].append(word)
    effects = [_effect_of(part) for part in parts]
    if Effect.WRITE in effects:
        return Effect.WRITE
    return effects[0]


def _effect_of(words: list[str]) -> Effect:
    for place, word in enumerate(words):
        if word in _READ:
            following = words[place + 1] if place + 1 < len(words) else ""
            return Effect.UNKNOWN if following in _TURNING and word != "look" else Effect.READ
        if word in _WRITE:
            return Effect.WRITE
    return Effect.UNKNOWN
