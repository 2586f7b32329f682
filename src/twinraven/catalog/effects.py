"""Infers a tool's effect (read, write, unknown) from its name, where none is declared.

A guess is marked as one (`inferred`): it may serve a backtest, but nothing is promoted on it until a person confirms.
To take a write for a read is the costly error, so a name must say plainly that it reads: its first word is a reading
verb (`describe_table`, `displayCarStatus`), known nouns alone stand before one (`git_log`, `brave_web_search`), a verb
that is never a noun stands behind a name (`reddit_get_posts`), one stands after a plural (`events_list`), or it is one
of a few whole names (`ls`, `liter_to_gallon`). A word that acts, anywhere in the name, ends that, unless a plain verb
reads what it names (`get_book`, `find_refund_options`), as do words for a place to write to (`fetch_and_store`,
`query_to_csv`). Verbs that go both ways (`open`, `check_in`) and everything else are unknown.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from twinraven.catalog.model import Effect


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READING = _words("""
    get find list search read look lookup fetch query check show display describe count calculate calc compute view
    browse inspect summarize summarise preview validate verify compare estimate track think explain retrieve peek
    translate parse extract rank detect scan grep suggest recommend convert enumerate locate analyze analyse identify
    determine predict forecast filter load decode encode hash tokenize geocode diff has is exists evaluate
""")
_ACTING = _words("""
    create update delete remove cancel modify set add insert send put patch write refund pay buy submit publish upload
    move rename archive start stop run execute exec eval deploy restart approve reject assign grant revoke reset clear
    drop append save push merge register subscribe unsubscribe notify edit enable disable kill apply install uninstall
    replace sync unlock purchase sell fund withdraw deposit invite join leave mark dismiss mute unmute ban kick follow
    unfollow retweet upvote downvote activate deactivate adjust fill press click tap type drag scroll navigate submit
    purge wipe destroy erase truncate overwrite revert rollback undo redo reboot shutdown terminate launch trigger
    invoke reserve checkout upsert increment decrement enqueue dequeue pop attach detach link unlink bind unbind
    provision scale migrate rotate regenerate rebuild reindex compact vacuum flush init initialize authenticate login
    logout signup mkdir touch chmod chown rm rmdir mv cp mount unmount clone fork squash stash rebase amend bump
    contact call dial ring announce broadcast share unshare pin unpin lend borrow donate bid vote sign hire fire
    empty refresh extend renew shorten split combine configure setup allow deny block unblock quarantine restore
    resolve reopen escalate complete finish confirm accept decline snooze book
""")
_NAMING = _words("""
    issue exchange return transfer charge order place post message email change schedule store lock release commit
    reply import export import close request comment report record note log label tag star copy download fix
    review test build plan draft sample answer
""")
"""Verbs that are nouns as well: they act where they come first, and are named where something reads them."""
_NAMED = _words("order issue message email post comment review note request charge")
"""Those of them that are nouns where a reading verb or a state follows at once (`issue_read`, `order_status`)."""
_NOUNS_TOO = _words("""
    purchase refund book call vote sign share link fund block fire scale type deposit bid mark pin split login checkout
    register edit fork invite contact
""")
"""Words that act and are nouns as well: named where a verb that is never a noun reads them (`get_book`)."""
_PLAIN = _words("get find retrieve describe fetch")
"""Reading verbs that are never nouns before an object: a word in front of them is a name (`reddit_get_posts`)."""
_LISTING = _words("list search read count get find describe lookup")
"""Reading verbs that end a name after a plural (`pods_list`) or after one of `_NAMED`."""
_MADE = _words("run report order build test review issue release commit request")
"""Those that name what is done or made before a word for data of it: `run_output` may be a noun, or may run."""
_DATA_OF = _words("id ids output outputs result results log logs")
_BOTH_WAYS = _words("open select classify sort format echo cd render make generate process handle play take use")

_VERBS = _READING | _ACTING | _NAMING | _BOTH_WAYS

_KNOWN_NOUNS = _words("""
    git github gitlab brave google bing duckduckgo tavily exa slack notion jira confluence linear sqlite postgres mysql
    mongo mongodb redis duckdb aws azure gcp k8s kubernetes docker excel fs file files directory folder web image video
    news local user users repo repository product page graph memory wikipedia wiki arxiv pubmed weather stock flight
    flights hotel hotels maps map youtube code customer account server system api http mcp my the all current entity
    node nodes table database db schema document doc docs library package time crypto market paper project team calendar
    semantic codebase dictionary model models dataset datasets movie song recipe restaurant company job jobs books
    scholar firecrawl perplexity serp reddit twitter hackernews steam spotify imdb tmdb huggingface hf space binance
    yahoo finance nasa tab pdf npm pypi nixos park parks reservation invoice ticket article game places
""")
_LAST_NOUNS = _words("""
    log status diff show tree info stats statistics history metadata version size forecast details summary overview
""")
_STATES = _words("status details info history summary stats metadata")
_UNITS = _words("""
    liter liters litre litres gallon gallons celsius fahrenheit kelvin km kilometer kilometers mile miles kg kilogram
    kilograms pound pounds lb lbs meter meters metre metres feet foot inch inches cm mm ounce ounces gram grams usd eur
    gbp jpy hex rgb hsl decimal binary octal roman degrees radians
""")
_CONVERTED = _UNITS | _words("""
    time times timezone currency currencies temperature unit units length weight distance date dates timestamp number
    base color colour coordinates
""")
_WHOLE_NAMES = _words("""
    ls dir cat pwd grep head tail wc du df stat whoami tree hostname uptime uname logarithm mean median subtract
    multiply divide factorial percentage sqrt
""")
_WHOLE_PHRASES = frozenset(
    tuple(phrase.split())
    for phrase in (
        *("square root", "standard deviation", "absolute value", "min value", "max value", "sum values"),
        *("si unit conversion", "imperial si conversion", "round number"),
    )
)

_DOUBTFUL = {
    "query": _words("sql db database cypher graphql statement raw"),
    "check": _words("in out off up box item items todo todos task tasks mark"),
    "verify": _words("email phone otp code user account identity"),
    "extract": _words("archive zip tar file files"),
    "show": _words("notification alert toast dialog popup"),
    "load": _words("""
        extension plugin module model data csv dataset file files workspace project session state profile page url
        script library package environment config configuration money funds cash card balance
    """),
    "evaluate": _words("script javascript js expression code python"),
}
"""What makes a reading verb something else."""
_TRACKED = _words("package packages parcel shipment shipments delivery order orders flight flights")
_SOLE_DOUBT = _words("query convert evaluate scan filter track load is has hash")
"""Reading verbs that say nothing when they are the whole name: such a tool may run anything."""
_TURNING = _words("in out off up")
_SINKS = _words("file disk db database table csv json clipboard s3 sheet channel slack email cart queue bucket")
_TOKENS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SERVER = "__"
_JOINTS = ("and", "or", "then")


@lru_cache(maxsize=8192)
def infer_effect(tool_id: str) -> Effect:
    """Infer what a tool does to the world from its name; the server in `server__tool` says nothing of it."""
    server, _, name = tool_id.partition(_SERVER)
    words = _own_words(name, server) if name else _own_words(tool_id)
    parts = _parts(words)
    effects = [_effect_of(part) for part in parts]
    if Effect.WRITE in effects:
        return Effect.WRITE
    is_bare_verb = len(parts) > 1 and len(parts[0]) == 1
    if is_bare_verb and any(effect is not Effect.READ for effect in effects[1:]):
        return Effect.UNKNOWN
    return Effect.UNKNOWN if _acts_or_stores(words) else effects[0]


def _own_words(name: str, server: str = "") -> list[str]:
    """Return the words of a name in lower case, without a namespace as in `orders.list` or `canvas-canvas_get_page`."""
    space, last = _namespace(name)
    around, own = ([word.lower() for word in _TOKENS.findall(text)] for text in (space, last))
    if not _ACTING.isdisjoint(around):
        return around + own
    names = {*around, *(word.lower() for word in _TOKENS.findall(server))} - _VERBS - _KNOWN_NOUNS
    lead = next((place for place, word in enumerate(own) if word not in names | _KNOWN_NOUNS), len(own))
    return [word for place, word in enumerate(own) if place >= lead or word not in names] or own


def _namespace(name: str) -> tuple[str, str]:
    """Split a name at its namespace: at a dot, or at a hyphen where one of both parts is spelt with `_`."""
    space, dot, last = name.rpartition(".")
    if dot or "_" not in name:
        return space, last
    space, _, last = name.rpartition("-")
    if "_" not in last:
        whole, _, end = name.rpartition("_")
        tail, _, last = end.partition("-")
        space = f"{whole}_{tail}"
    is_named = bool(space and last) and _VERBS.isdisjoint(word.lower() for word in _TOKENS.findall(space))
    return (space, last) if is_named else ("", name)


def _parts(words: list[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word in _JOINTS:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _effect_of(words: list[str]) -> Effect:
    """Return the effect of one part of a name, by the first word in it that is a verb."""
    if len(words) == 1 and words[0] in _WHOLE_NAMES:
        return Effect.READ
    if tuple(words) in _WHOLE_PHRASES or _converts_units(words):
        return Effect.READ
    if len(words) == 2 and words[0] in _MADE and words[1] in _DATA_OF:
        # A name that says neither; what the tool declares of itself decides.
        return Effect.UNKNOWN
    for place, word in enumerate(words):
        if _is_name(words, place):
            continue
        if word in _ACTING or (word in _NAMING and word not in _LAST_NOUNS):
            return Effect.WRITE
        if word in _BOTH_WAYS:
            return Effect.UNKNOWN
        is_reading = word in _READING or (place == len(words) - 1 and place > 0 and word in _LAST_NOUNS)
        if is_reading:
            return Effect.READ if _reads(words, place) else Effect.UNKNOWN
        if word not in _KNOWN_NOUNS:
            # It may be a verb that nobody listed here.
            return _later_write(words[place + 1 :])
    return Effect.UNKNOWN


def _is_name(words: list[str], place: int) -> bool:
    """Return whether the first word (`API-` aside) only names what is read: by what follows it, it cannot be a verb."""
    word, rest = words[place], words[place + 1 :]
    if words[:place] not in ([], ["api"]) or not rest or word in _ACTING or word in _READING or word in _BOTH_WAYS:
        return False
    if len(rest) > 1 and rest[0] in _PLAIN and word != "git":
        return True
    is_named = word in _NAMED or (len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")))
    return is_named and len(rest) == 1 and rest[0] in (_LISTING | _STATES)


def _reads(words: list[str], place: int) -> bool:
    """Return whether a reading verb at this place reads here, too."""
    verb, following = words[place], words[place + 1 : place + 2]
    rest = set(words[place + 1 :])
    if len(words) == 1:
        return verb not in _SOLE_DOUBT
    if following and following[0] in _TURNING and verb not in ("look", "read"):
        return False
    if verb == "convert":
        return not rest.isdisjoint(_CONVERTED)
    if verb == "track":
        return not rest.isdisjoint(_TRACKED)
    if verb in ("fetch", "diff") and words[:place] == ["git"]:
        return verb == "diff"
    around = rest | set(words[:place])
    return around.isdisjoint(_DOUBTFUL.get(verb, frozenset()))


def _later_write(words: list[str]) -> Effect:
    acts = not _ACTING.isdisjoint(words) and _READING.isdisjoint(words)
    return Effect.WRITE if acts else Effect.UNKNOWN


def _acts_or_stores(words: list[str]) -> bool:
    """Return whether a name that begins like a read goes on like a write."""
    acting = _ACTING.intersection(words)
    if "into" in words or acting - _NOUNS_TOO or (acting and _PLAIN.isdisjoint(words[:2])):
        return True
    return any(one == "to" and other in _SINKS for one, other in pairwise(words))


def _converts_units(words: list[str]) -> bool:
    return len(words) == 3 and words[1] == "to" and words[0] in _UNITS and words[2] in _UNITS
