"""Compares names of entities: canonical tokens, digits, nicknames, acronyms, and how alike two names are.

What differs in numbers is never alike (GPT-4 and GPT-5, order 1042 and 1043, Henry VII and Henry VIII), however they
are written (World War II, World War 2). Equal tokens mean the same name in another spelling; a name inside another
(Paris, Paris Hilton) is a guess that a person must confirm.
"""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from twinraven.knowledge.words import terms

_WORD: Final = re.compile(r"[^\W\d_]+|\d+|[+#]+")
_DIGITS: Final = re.compile(r"\d+")
_ROMAN: Final = re.compile(r"(?<=[^\W_]\s)(?!X\b)X{0,3}(?:IX|IV|V?I{0,3})(?<=[IVX])\b")
"""A numeral behind a word, up to 39; an X alone is a letter (Model X)."""
_DOTTED: Final = re.compile(r"\b(?:[^\W\d_]\.){2,}")
_SPELLED: Final = re.compile(r"\b[a-z]+\b", re.IGNORECASE)
_COUNTS: Final = """
one two three four five six seven eight nine ten eleven twelve
first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth
"""
_NUMBERS: Final = {word: number for line in _COUNTS.splitlines() for number, word in enumerate(line.split(), start=1)}
_ORDINAL_END: Final = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_ARTICLES: Final = frozenset(("the", "an", "of", "and", "for"))
_TITLES: Final = frozenset(("dr", "prof", "professor", "doctor"))
_ADDRESSED: Final = {"mister": "mr", "sir": "mr", "mrs": "ms", "miss": "ms"}
"""Mr. Lee is another person than Mrs. Lee: what tells them apart stays in the name."""
_LONGEST_ACRONYM: Final = 4
_SAME_WORDS: Final = """
corporation corp; incorporated inc; limited ltd; company co; saint st; street str; avenue ave; road rd; mount mt
fort ft; laboratories laboratory labs lab; building bldg; government govt; national natl; center centre ctr
university univ uni; department dept; international intl; association assoc; brothers bros; doctor dr; junior jr
robert bob rob bobby; william bill will billy liam; elizabeth liz beth lizzie eliza betty; katherine kate katie kathy
catherine cathy; michael mike mick; james jim jimmy jamie; john johnny jack jon; thomas tom tommy; richard rick dick
joseph joe joey; margaret maggie meg peggy; alexander alex sandy; edward ed eddie ted; charles charlie chuck
daniel dan danny; david dave; christopher chris; anthony tony; samuel sam; benjamin ben; matthew matt; andrew andy drew
nicholas nick; patricia pat patty trish; jennifer jen jenny; jessica jess; susan sue susie; deborah deb debbie
stephen steve steven; timothy tim; gregory greg; kenneth ken; ronald ron; lawrence larry; frederick fred freddie
theodore theo; victoria vicky; rebecca becky becca; melanie mel; abigail abby; gabriel gabe; jacob jake; zachary zach
peter pete pyotr
"""
_CANONICAL: Final = {
    word: words.split()[0]
    for line in _SAME_WORDS.splitlines()
    for words in line.split(";")
    if words.strip()
    for word in words.split()
}
_LEGAL: Final = frozenset(("corporation", "incorporated", "limited", "company", "llc", "gmbh", "plc", "ag"))
_INSIDE: Final = 0.88
_ACRONYM: Final = 0.9
_NICKNAME: Final = 0.93


@lru_cache(16_384)
def plain_tokens(name: str) -> tuple[str, ...]:
    """Return the words of a name without accents, case, articles and titles; what stands behind a comma goes first."""
    bare = _without_accents(name.casefold()).replace("'", "").replace("’", "")
    before, comma, behind = bare.partition(",")
    every: tuple[str, ...] = tuple(_WORD.findall(bare))
    if comma and not _LEGAL & {_CANONICAL.get(word, word) for word in _WORD.findall(behind)}:
        every = tuple(_WORD.findall(f"{behind} {before}"))
    kept = tuple(_ADDRESSED.get(word, word) for word in every if word not in _ARTICLES and word not in _TITLES)
    return kept or every


def _without_accents(text: str) -> str:
    """Marks on Latin letters are dropped; in other scripts they make another letter."""
    kept: list[str] = []
    for sign in unicodedata.normalize("NFKD", text):
        if not (unicodedata.combining(sign) and kept and kept[-1].isascii()):
            kept.append(sign)
    return "".join(kept)


@lru_cache(16_384)
def name_key(name: str) -> str:
    """Return the key that two spellings of one name share; the order counts (Grace James, James Grace)."""
    return " ".join(plain_tokens(name)) or name.casefold()


def is_same_name(first: str, second: str) -> bool:
    """Return whether two names are spellings of one: equal words in equal order, and none is an acronym (WHO, Who)."""
    if name_key(first) != name_key(second):
        return False
    return first.isupper() == second.isupper() or len(first) > _LONGEST_ACRONYM


def numbers_agree(first: str, second: str) -> bool:
    """Return whether two names have equal numbers; one that is only spelled out may be missing (Elizabeth II)."""
    left, right = _DIGITS.findall(respelled(first)), _DIGITS.findall(respelled(second))
    written, other = _DIGITS.findall(first), _DIGITS.findall(second)
    return left == right or (written == other and (left == written or right == other))


@lru_cache(16_384)
def respelled(name: str) -> str:
    """Return a name with numbers as digits (World War II, Fifth Avenue) and without the dots of D.C."""
    digits = _ROMAN.sub(lambda match: str(_roman_value(match[0])), name)
    digits = _SPELLED.sub(lambda match: str(_NUMBERS.get(match[0].lower(), match[0])), digits)
    return _DOTTED.sub(lambda match: match[0].replace(".", ""), _ORDINAL_END.sub("", digits))


def _roman_value(numeral: str) -> int:
    values = [{"I": 1, "V": 5, "X": 10}[sign] for sign in numeral]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))


@lru_cache(65_536)
def name_similarity(first: str, second: str) -> float:
    """Return the similarity of two names, from 0 to 1."""
    if not numbers_agree(first, second):
        return 0.0
    alike = _token_similarity(plain_tokens(first), plain_tokens(second))
    others = respelled(first), respelled(second)
    if others == (first, second) or alike == 1:
        return alike
    return max(alike, min(_NICKNAME, _token_similarity(plain_tokens(others[0]), plain_tokens(others[1]))))


def _token_similarity(left: tuple[str, ...], right: tuple[str, ...]) -> float:
    if sorted(left) == sorted(right):
        return 1.0
    if _canonical(left) == _canonical(right) or "".join(left) == "".join(right):
        return _NICKNAME
    if _is_acronym(left, right) or _is_acronym(right, left):
        return _ACRONYM
    spelled = SequenceMatcher(None, " ".join(left), " ".join(right), autojunk=False).ratio()
    if _is_inside(left, right) or _is_inside(right, left):
        return max(spelled, _INSIDE)
    return spelled * _worst_token(left, right)


def summary_similarity(first: str, second: str) -> float | None:
    """Return the share of words that two summaries have in common; nothing where one says too little."""
    left, right = set(terms(first)), set(terms(second))
    if min(len(left), len(right)) < 2:
        return None
    return len(left & right) / min(len(left), len(right))


def block_keys(name: str) -> set[str]:
    """Return the blocking keys of a name: only names that share one are compared."""
    words = plain_tokens(name)
    keys = {_CANONICAL.get(word, word)[:2] for word in words} | {word[:2] for word in words}
    if len(words) > 1:
        keys.add("=" + "".join(word[0] for word in words))
    elif words:
        keys.add("=" + words[0])
    return keys


def _canonical(words: tuple[str, ...]) -> list[str]:
    meant = [_CANONICAL.get(word, word) for word in words]
    if len(words) > 1 and words[-1] == "st":
        meant[-1] = "street"
    kept = [word for word in meant if word not in _LEGAL]
    return sorted(kept or meant)


def _is_acronym(short: tuple[str, ...], words: tuple[str, ...]) -> bool:
    return len(short) == 1 and len(words) > 1 and short[0] == "".join(word[0] for word in words)


def _is_inside(short: tuple[str, ...], words: tuple[str, ...]) -> bool:
    """Return whether every word of a name, or its initial, stands in a longer name in the same order."""
    if not 0 < len(short) <= len(words):
        return False
    place = 0
    for word in short:
        while place < len(words) and not _fits(word, words[place]):
            place += 1
        if place == len(words):
            return False
        place += 1
    return any(len(word) > 1 for word in short)


def _fits(word: str, other: str) -> bool:
    if _CANONICAL.get(word, word) == _CANONICAL.get(other, other):
        return True
    return (len(word) == 1 and other.startswith(word)) or (len(other) == 1 and word.startswith(other))


def _worst_token(left: tuple[str, ...], right: tuple[str, ...]) -> float:
    """1 where each word has its like in the other name; a word of its own lowers the whole."""
    if len(left) != len(right):
        return 0.9
    worst = min(max(SequenceMatcher(None, word, other, autojunk=False).ratio() for other in right) for word in left)
    return 1.0 if worst >= 0.75 else worst
