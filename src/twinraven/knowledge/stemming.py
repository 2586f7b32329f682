"""Stems English words: Porter's suffix rules, after a table of irregular forms ("went" is "go").

People tell in the past what questions ask in the present, and the verbs they use most are the irregular ones, which
suffix rules cannot reach.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_IRREGULAR_FORMS: Final = """
be am is are was were been being; go went gone goes; do did done does; have had has having; get got gotten gets
buy bought; take took taken; make made; meet met; see saw seen; come came; give gave given; find found; feel felt
lose lost; win won; leave left; run ran; teach taught; begin began begun; write wrote written; eat ate eaten
grow grew grown; draw drew drawn; sing sang sung; swim swam swum; build built; spend spent; sell sold; tell told
bring brought; think thought; catch caught; keep kept; sleep slept; hold held; hear heard; fly flew flown
drive drove driven; ride rode ridden; break broke broken; choose chose chosen; speak spoke spoken; wear wore worn
know knew known; say said; send sent; fall fell fallen; fight fought; forget forgot forgotten; hide hid hidden
lead led; lend lent; pay paid; rise rose risen; sit sat; stand stood; steal stole stolen; throw threw thrown
understand understood; wake woke woken; sew sewn; show shown; shoot shot; stick stuck; strike struck; swear sworn
seek sought; shake shook shaken; sink sank sunk; slide slid; tear tore torn; become became; blow blew blown
bite bit bitten; deal dealt; dig dug; drink drank drunk; feed fed; forgive forgave forgiven; freeze froze frozen
hang hung; kneel knelt; lay laid; mean meant; ring rang rung; bend bent; bind bound; breed bred; creep crept
child children kid kids; man men; woman women; foot feet; tooth teeth; mouse mice; goose geese; person people persons
wife wives; life lives; knife knives; leaf leaves; shelf shelves; wolf wolves; good better best; bad worse worst
mum mom mother moms mothers mums mommy; dad father dads fathers daddy; grandma grandmother granny; grandpa grandfather
photo photos photograph photographs; tv television; bike bicycle bikes bicycles; fridge refrigerator; gym gymnasium
business businesses; news; university universities; community communities; animal animals; important importance
party parties; policy policies; police; passion passions; general; generous; organ organs; station stations; past
busy; communicate communication; relative relatives; relation relationship relationships; nature natural; nation
national; universe; experience experiences; marine; wander wandering; number numbers; necklace necklaces
phone telephone phones; exam examination exams; ad advertisement; vet veterinarian vets; doc doctor doctors
"""
_IRREGULAR: Final = {
    form: words.split()[0]
    for line in _IRREGULAR_FORMS.splitlines()
    for words in line.split(";")
    if words.strip()
    for form in words.split()
}

_SHORTEST: Final = 3
_VOWEL: Final = re.compile(r"[aeiouy]")
_STEP_2: Final = (
    ("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize"), ("abli", "able"),
    ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize"), ("ation", "ate"),
    ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful"), ("ousness", "ous"), ("aliti", "al"),
    ("iviti", "ive"), ("biliti", "ble"),
)  # fmt: skip
_STEP_3: Final = (
    ("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", ""),
)  # fmt: skip
_STEP_4: Final = (
    "ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti", "ous", "ive", "ize", "ion",
    "al", "er", "ic", "ou",
)  # fmt: skip


@lru_cache(65_536)
def stem(word: str) -> str:
    """Return the stem of one word in lower case; digits and other alphabets stay as they are."""
    known = _IRREGULAR.get(word)
    if known is not None:
        return known
    if len(word) < _SHORTEST or not word.isascii() or not word.isalpha():
        return word
    found = _derivations(_past_and_progressive(_plural(word)))
    return _IRREGULAR.get(found, found)


def _plural(word: str) -> str:
    if word.endswith("sses") or (word.endswith("ies") and len(word) > 4):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def _past_and_progressive(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) else word
    for suffix in ("ed", "ing"):
        base = word.removesuffix(suffix)
        if base != word and _VOWEL.search(base):
            word = _mended(base)
            break
    if word.endswith("y") and _VOWEL.search(word[:-1]):
        word = word[:-1] + "i"
    return word


def _mended(base: str) -> str:
    """Put back what "-ed" and "-ing" took: hop-p-ing, hik-e-d."""
    if base.endswith(("at", "bl", "iz")):
        return base + "e"
    if len(base) > 1 and base[-1] == base[-2] and base[-1] not in "lszaeiou":
        return base[:-1]
    if _measure(base) == 1 and _ends_short(base):
        return base + "e"
    return base


def _derivations(word: str) -> str:
    for rules in (_STEP_2, _STEP_3):
        for suffix, put in rules:
            if word.endswith(suffix):
                base = word[: -len(suffix)]
                word = base + put if _measure(base) else word
                break
    for suffix in _STEP_4:
        if word.endswith(suffix):
            base = word[: -len(suffix)]
            if _measure(base) > 1 and (suffix != "ion" or base[-1:] in ("s", "t")):
                word = base
            break
    return _without_final_e(word)


def _without_final_e(word: str) -> str:
    if word.endswith("e"):
        base = word[:-1]
        size = _measure(base)
        if size > 1 or (size == 1 and not _ends_short(base)):
            word = base
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


def _measure(base: str) -> int:
    """Return how often consonants follow vowels: Porter's m."""
    count = 0
    was_vowel = False
    for place, sign in enumerate(base):
        is_vowel = sign in "aeiou" or (sign == "y" and place > 0 and not was_vowel)
        count += was_vowel and not is_vowel
        was_vowel = is_vowel
    return count


def _ends_short(base: str) -> bool:
    """Consonant, vowel, consonant at the end, the last not w, x or y."""
    if len(base) < 3 or base[-1] in "aeiouwxy":
        return False
    return base[-2] in "aeiouy" and base[-3] not in "aeiou"
