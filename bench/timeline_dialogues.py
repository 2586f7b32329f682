"""Composes dialogues from timelines: what happens to two people over months, told in sessions of twenty turns.

Unlike bench.dialogue_sets, nothing here is an exchange of one voice. A matter (a job, a pet, a journey) is a list of
stages with slots; both people live through some of the same matters with different values, stages are told weeks
apart, pictures are shared as captions in brackets, and times are written as chats export them. So a question must
tell two people, two values and two stages apart. It was made to test, and nothing was trained or chosen on it.
"""

# ruff: noqa: E501 - what is said stands on one line
from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

_PAIRS: Final = (("Ifeoma", "Lars"), ("Hana", "Diego"), ("Tomasz", "Aylin"), ("Keira", "Babak"))
_IN_SESSION: Final = 20
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_CLOCKS: Final[tuple[Callable[[datetime], Any], ...]] = (
    lambda at: at.isoformat(),
    lambda at: f"{at:%I:%M} {'am' if at.hour < 12 else 'pm'} on {at.day} {at:%B}, {at.year}",
    lambda at: f"{at:%Y/%m/%d (%a) %H:%M}",
    lambda at: (at - _EPOCH).total_seconds(),
)


class Stage(NamedTuple):
    """What one person tells of a matter at one time; `asked` is what the other says first."""

    asked: str
    told: str
    more: str
    questions: tuple[tuple[str, str], ...]
    """Kind and text; t and s are answered by `told`, m by `more`, b by both."""


class Matter(NamedTuple):
    slots: dict[str, tuple[str, ...]]
    stages: tuple[Stage, ...]


def _matter(slots: dict[str, str], *stages: Stage) -> Matter:
    return Matter({name: tuple(each.strip() for each in text.split("|")) for name, text in slots.items()}, stages)


MATTERS: Final = (
    _matter(
        {"job": "lab technician|bus driver|sous-chef|bookkeeper", "place": "the harbour clinic|Nordlys Foods|the tram depot"},
        Stage(
            "You look tense. Anything up?",
            "I handed in my notice on Monday. Nine years, and I just couldn't face another winter there.",
            "My supervisor barely looked up from her screen, which told me everything.",
            (("t", "When did {A} quit?"), ("m", "How did {A}'s boss react to the resignation?")),
        ),
        Stage(
            "So, any luck with applications?",
            "Yes! As of next week I'm a {job} at {place}. Trial period is three months.",
            "The best part: I can walk to work along the canal in twelve minutes.",
            (("s", "What is {A}'s new occupation?"), ("m", "How long is {A}'s commute?"), ("b", "Where does {A} work now and how does {A} get there?")),
        ),
    ),
    _matter(
        {"pet": "greyhound|cockatiel|tortoise|ferret", "name": "Pickle|Admiral|Juniper|Moomin"},
        Stage(
            "Why is there fur, or whatever that is, on your sleeve?",
            "Meet {name}! I picked up a {pet} from the rescue station two days ago.",
            "[photo: a {pet} asleep in a laundry basket] He claimed the basket within an hour.",
            (("s", "What kind of animal did {A} adopt?"), ("t", "When did {A} bring {name} home?"), ("m", "Where does {A}'s animal like to nap?")),
        ),
        Stage(
            "How is the little one?",
            "{name} had to stay overnight at the vet's after swallowing a button.",
            "Four hundred euros later he's fine and completely unrepentant.",
            (("s", "What health scare did {name} have?"), ("m", "How much was the bill for treating {A}'s companion?")),
        ),
    ),
    _matter(
        {"town": "Tromsø|Valparaíso|Ghent|Tbilisi", "by": "night train|cargo ship|camper van|bicycle"},
        Stage(
            "Holiday plans this year?",
            "We booked {town} for the second half of August, and we're going by {by}.",
            "My sister wants to paint there, I mostly want to eat.",
            (("s", "What is {A}'s travel destination?"), ("m", "With whom is {A} travelling?"), ("s", "How will {A} get there?")),
        ),
        Stage(
            "And? Tell me everything about the trip.",
            "{town} was glorious until my wallet went missing at the market.",
            "[image: two people laughing on a rainy square] A stranger found it and refused any reward.",
            (("s", "What went wrong on {A}'s vacation?"), ("m", "Who returned what {A} had lost?")),
        ),
    ),
    _matter(
        {"thing": "accordion|cello|theremin|bagpipes", "song": "a sea shanty|a waltz by Shostakovich|an old lullaby"},
        Stage(
            "What's that noise from your flat lately?",
            "I've taken up the {thing}. Lessons every Thursday with a retired postman.",
            "My fingertips hurt and the downstairs neighbours have bought earplugs.",
            (("s", "Which instrument is {A} learning?"), ("m", "What did the people living below {A} do?"), ("s", "Who teaches {A} music?")),
        ),
        Stage(
            "Still practising?",
            "I performed {song} at the street fair last Saturday, in front of actual humans!",
            "I messed up the ending but a kid danced all the way through.",
            (("t", "When was {A}'s first public performance?"), ("s", "What piece did {A} play for an audience?"), ("m", "How did a child respond to {A}'s music?")),
        ),
    ),
    _matter(
        {"part": "knee|shoulder|wrist|ankle", "sport": "bouldering|fencing|rowing|trampolining"},
        Stage(
            "You're limping, or is that a new walk?",
            "Tore something in my {part} while {sport} the day before yesterday. Heard it pop.",
            "The doctor says six weeks without any load, and absolutely no stairs.",
            (("s", "Which part of the body did {A} injure?"), ("t", "When did {A} get hurt?"), ("m", "What was {A} told by the physician?")),
        ),
        Stage(
            "Is the recovery going okay?",
            "The physio let me back on the mat this morning. Ten minutes of {sport}, pure joy.",
            "I cried a bit, don't tell anyone.",
            (("t", "When was {A} allowed to exercise again?"), ("m", "How did {A} feel about returning to training?")),
        ),
    ),
    _matter(
        {"dish": "kimchi|sourdough|elderflower cordial|goat cheese", "prize": "second place|a wooden spoon|a ribbon"},
        Stage(
            "Your kitchen smells interesting.",
            "I'm making my own {dish} now. First batch exploded, second is edible.",
            "I keep it in the wardrobe because it's the only dark, cool spot.",
            (("s", "What does {A} make at home?"), ("m", "Where does {A} store the homemade food?")),
        ),
        Stage(
            "Did you bring some to the harvest festival?",
            "The jury gave my {dish} {prize}! Out of thirty-one entries.",
            "My grandmother's recipe, so really the honour is hers.",
            (("s", "What award did {A} win for cooking?"), ("m", "Whose recipe was it that {A} used?"), ("s", "How many competitors did {A} face at the festival?")),
        ),
    ),
    _matter(
        {"kin": "nephew|goddaughter|stepson|niece", "subject": "astronomy|beetles|opera|chess"},
        Stage(
            "Who's the kid in the picture on your desk?",
            "That's my {kin}, Emre's youngest. Obsessed with {subject} at the age of eight.",
            "[caption: a child holding a magnifying glass] We spend every other Sunday together.",
            (("s", "What is the child in {A}'s family fascinated by?"), ("m", "How often does {A} see the child?")),
        ),
        Stage(
            "How was the birthday party?",
            "For the ninth birthday I built a {subject} treasure hunt across the whole park.",
            "It took me three evenings, and they solved it in twenty minutes flat.",
            (("s", "What did {A} prepare for the celebration?"), ("m", "How long did {A} need to set the game up?")),
        ),
    ),
    _matter(
        {"vehicle": "scooter|cargo bike|rowing boat|old Saab", "colour": "mustard|turquoise|crimson"},
        Stage(
            "Whose is that thing parked outside?",
            "Mine! I bought a second-hand {vehicle} off a widower in the next village.",
            "It needs new brakes and I'm going to paint it {colour}.",
            (("s", "What did {A} purchase used?"), ("m", "What colour did {A} choose?"), ("s", "From whom did {A} buy it?")),
        ),
        Stage(
            "Is it roadworthy, or floatable, or whatever?",
            "Sold the {vehicle} again a week ago. The repairs would have cost twice its price.",
            "I kept the bell as a souvenir.",
            (("t", "When did {A} get rid of the {vehicle}?"), ("s", "Why did {A} give the {vehicle} up?"), ("m", "What memento does {A} still have?")),
        ),
    ),
    _matter(
        {"course": "sign language|beekeeping|welding|Portuguese", "reason": "a colleague is deaf|the allotment came with hives|the gate is broken"},
        Stage(
            "Busy evenings lately?",
            "I enrolled in a {course} class at the adult education centre, starting the third of next month.",
            "It's because {reason}, and I was tired of being useless.",
            (("s", "What is {A} studying in the evenings?"), ("t", "When does {A}'s class begin?"), ("m", "What motivated {A} to sign up for lessons?")),
        ),
        Stage(
            "Passed the exam?",
            "Certificate's in my bag! I scored 87 points in {course}, the teacher was stunned.",
            "I'd like to teach beginners myself some day.",
            (("s", "How well did {A} do on the test?"), ("m", "What does {A} hope to do in future?")),
        ),
    ),
    _matter(
        {"home": "a houseboat|a ground-floor flat|an attic with skylights|a cottage", "street": "Mill Lane|Osterkade|Fern Street"},
        Stage(
            "Still flat-hunting?",
            "Signed the lease on {home} in {street}. The keys come on the first.",
            "The kitchen is tiny but there's a balcony for my tomatoes.",
            (("s", "Where is {A} going to live?"), ("m", "What will {A} grow at the new place?"), ("t", "When can {A} move in?")),
        ),
        Stage(
            "Settled in?",
            "Almost. The boiler died on the very first night and I slept in my coat.",
            "Old Mrs. Abara from across the hall brought me soup and a heater.",
            (("s", "What broke when {A} moved?"), ("m", "Who helped {A} after the move?")),
        ),
    ),
)  # fmt: skip
_CHATTER: Final = tuple(
    """
    Ha, that is so you.|I can't believe it's already this late in the year.|Did you see the fog this morning? Like soup.
    Honestly, same here.|Let's get coffee soon, I owe you one.|I had noodles again. No regrets.|My phone died halfway through.
    The bus was packed, I stood the whole way.|Anyway, enough about me.|That sounds exhausting.|You always know what to say.
    I'm reading the worst thriller ever and cannot stop.|The neighbours are drilling again.|Wow, okay, that escalated.
    Remind me to send you that recipe.|I slept like a stone.|Work was work.|Rain again. I've stopped carrying an umbrella.
    What are you having for dinner?|Do you ever miss school?|Somebody left a piano on the pavement.|No way!|Good for you.
    My mother says hello, by the way.|I finally cleaned the fridge.|There was a heron on the roof, just standing there.
    I need a nap and it's ten in the morning.|Tell me you didn't.|I'd have done the same.|Right, I should get going.
    How's your week looking?|The market had the first strawberries.|I lost a glove. Again.|That made my day.|Fair point.
    """.replace("\n", "|").split("|")
)  # fmt: skip


class Timeline(NamedTuple):
    """A dialogue as lines for `episodes import`, and questions with the names of their evidence."""

    episodes: list[dict[str, Any]]
    questions: list[dict[str, Any]]


def compose_timeline(seed: int, *, sessions: int) -> Timeline:
    """A dialogue of so many sessions of twenty turns, and the questions that its stages answer."""
    rng = random.Random(f"timeline-{seed}")
    people = _PAIRS[seed % len(_PAIRS)]
    told = _schedule(rng, people, sessions)
    group = f"timeline-{seed}"
    made = Timeline([], [])
    at = datetime(2022, 3, 1, 18, 5, tzinfo=UTC) + timedelta(days=rng.randrange(200))
    for number in range(sessions):
        at += timedelta(days=rng.randint(3, 24), minutes=rng.randint(0, 300))
        turns: list[tuple[str, str]] = []
        for stage, teller, values in told[number]:
            other = people[teller == people[0]]
            names = {**values, "A": teller, "B": other}
            turns.extend(_small_talk(rng, people, rng.randint(1, 5)))
            place = len(turns)
            turns += [(other, stage.asked), (teller, stage.told.format(**names)), (other, rng.choice(_CHATTER).strip())]
            turns.append((teller, stage.more.format(**names)))
            found = {"t": [place + 1], "s": [place + 1], "m": [place + 3], "b": [place + 1, place + 3]}
            for kind, text in stage.questions:
                evidence = [f"S{number + 1}:{each + 1}" for each in found[kind]]
                asked = {"id": f"{group}-{len(made.questions)}", "group_id": group, "query": text.format(**names)}
                made.questions.append({**asked, "kind": kind, "evidence": evidence})
        turns.extend(_small_talk(rng, people, max(0, _IN_SESSION - len(turns))))
        for place, (speaker, text) in enumerate(turns):
            spoken = at + timedelta(minutes=place)
            said = {"group_id": group, "name": f"S{number + 1}:{place + 1}", "speaker": speaker, "content": text}
            made.episodes.append({**said, "valid_at": _CLOCKS[seed % len(_CLOCKS)](spoken)})
    return made


def _schedule(
    rng: random.Random, people: tuple[str, str], sessions: int
) -> list[list[tuple[Stage, str, dict[str, str]]]]:
    """Which stages are told in which session: those of a matter in their order, by either or both people."""
    told: list[list[tuple[Stage, str, dict[str, str]]]] = [[] for _ in range(sessions)]
    for matter in MATTERS:
        tellers = people if rng.random() < 0.6 else (rng.choice(people),)
        taken: dict[str, set[str]] = {}
        for teller in tellers:
            values: dict[str, str] = {}
            for name, choices in matter.slots.items():
                values[name] = rng.choice([each for each in choices if each not in taken.get(name, set())])
                taken.setdefault(name, set()).add(values[name])
            places = sorted(rng.sample(range(sessions), len(matter.stages)))
            for place, stage in zip(places, matter.stages, strict=True):
                told[place].append((stage, teller, values))
    return told


def _small_talk(rng: random.Random, people: tuple[str, str], turns: int) -> list[tuple[str, str]]:
    first = rng.randrange(2)
    return [(people[(first + place) % 2], rng.choice(_CHATTER).strip() or "Mm.") for place in range(turns)]
