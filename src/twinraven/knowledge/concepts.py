"""Relates everyday words: synonyms, and the members of a class ("instrument" names guitar and violin).

Questions about a dialogue are asked in other words than those that were said. Vectors would bridge that with a model;
two tables do it with none, and a hit can say which word stood for which. One holds a few hundred everyday concepts,
written by hand: people, work, health, home, leisure, travel, food, animals, feelings, time. The other
(word_vectors.py) knows the nearest neighbours of common words.

A third table (common_words.txt, written by tools/common_words.py) says how common a word is in English: a dialogue is
too short to tell that "first" says less than "regatta".
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from importlib import resources
from typing import Final

from twinraven.knowledge.stemming import stem
from twinraven.knowledge.word_vectors import nearest_stems

_SYNONYMS: Final = """
child kid son daughter toddler baby little; wife husband spouse partner married marriage; parent mom dad family folks
sibling brother sister; girlfriend boyfriend dating relationship partner; friend buddy pal friendship; colleague
coworker teammate; boss manager supervisor; neighbor neighbour neighborhood; relative cousin aunt uncle family
job work career occupation profession employed living; hire recruit offer employed; fire laid layoff unemployed quit
resign; promote promotion raise; company firm startup business employer; interview applied application; colleague team
money salary income pay financial finance budget savings; buy purchase shop order bought pick; sell sale sold; cost
price expensive cheap; gift present surprise; donate donation charity fundraiser raise; rent lease landlord; loan debt
mortgage; school college university campus class; study degree major course learn exam; teacher professor instructor
mentor tutor coach; graduate graduation diploma degree; student pupil; research investigate look explore; lesson class
course workshop; skill talent ability good; subject topic; health medical doctor hospital; sick ill illness disease
unwell flu; hurt injure injury pain sprain accident broke; doctor physician clinic appointment; therapy therapist
counseling counselor; stress anxious anxiety overwhelmed nervous worry pressure; relax unwind calm destress peaceful
soothing; sad depressed grief upset down; happy glad joy thrilled excited delighted; angry mad frustrated annoyed;
afraid scared fear terrified; proud pride accomplish achievement; lonely alone isolated; tired exhausted fatigue
burnout; inspire inspiration motivate motivation influence; support encourage help backing; love adore enjoy favorite
passion fond; hate dislike; hobby pastime interest passion leisure fun spare free; favorite best love prefer; goal plan
aim hope dream want aspire; plan intend hope going upcoming; decide decision choose choice; try attempt start; begin
start launch open kick; finish complete end done; succeed success accomplish; fail failure mistake; challenge struggle
difficult hard obstacle tough problem; fix repair mend; improve better progress; change transform switch; create make
build craft design; paint draw art sketch painting artwork canvas; artist painter; photo picture photography camera
snap; music song band tune; sing singer choir vocal; dance dancer dancing ballet; concert gig show live performance;
film movie cinema; show series tv episode season; book novel read author story; write writer journal poem blog; poem
poetry; game play gaming console; sport exercise workout gym fitness training; exercise workout run gym jog; run race
marathon jog; hike trail trek walk mountain; swim pool lake; bike cycle ride cycling; climb bouldering climbing; camp
camping tent campfire; fish fishing; garden plant gardening flower grow; cook bake recipe kitchen meal dish; eat meal
dinner food lunch restaurant; restaurant diner cafe place eatery; drink coffee tea beer wine; dessert cake cookie sweet
bake; vegetarian vegan diet; allergy allergic; travel trip vacation holiday journey visit abroad; visit trip went see;
fly flight plane airport; drive car road vehicle; train subway bus; hotel stay airbnb hostel; beach ocean sea coast;
mountain peak hill summit; forest wood nature outdoors; lake river water; city town; country nation abroad; home house
apartment place flat; move relocate moved settle; move moving new; room bedroom kitchen; furniture couch sofa table
desk chair; renovate renovation remodel repair redecorate; clean tidy declutter organize; pet dog cat puppy kitten
animal; puppy dog pup; kitten cat; adopt rescue shelter foster; name call named; birthday celebrate party turn;
wedding marry married ceremony engaged; engage propose engaged ring fiance; divorce split breakup separated; birth born
baby pregnant pregnancy; die death passed funeral lost; holiday christmas thanksgiving easter halloween; celebrate
party celebration toast; event festival fair gathering meetup; meet met gathering reunion; join sign enroll member
signed; volunteer help community charity; win award prize won medal trophy contest; compete competition contest
tournament match; lose lost; teach lesson tutor mentor; speak speech talk presentation; church faith religion pray
spiritual; political politics vote election campaign; identity transgender gender lgbtq; religion faith church belief;
military army veteran service; police officer; lawyer attorney legal court; computer laptop software app; phone mobile
call; internet online website web; program code software developer programming; design designer; engineer engineering;
robot machine device; video youtube channel stream vlog; post social instagram media; weather rain snow storm; clothes
dress shirt wear outfit fashion; jewelry necklace ring bracelet; shoe boots sneakers; bag backpack purse; color colour
red blue; necklace pendant chain; symbol represent mean meaning stand reminder; remind reminder memory memories
nostalgia; memory remember; origin hometown born grew roots country; live reside living based; nationality country
roots; old age years birthday; year ago; early morning dawn; night evening; weekend saturday sunday; week weekly;
month monthly; today day; daily everyday routine; often frequently usually times; long since duration years; advice
suggest recommend tip suggestion; recommend suggestion advice; think opinion view believe; feel feeling emotion;
reason because why; realize learn understand lesson; important matter value meaningful; different diverse; new recent
latest; big huge large; small tiny little; near close nearby; meditate meditation mindfulness yoga; yoga stretch
pilates; sleep insomnia rest; weight diet fit; smoke quit; surgery operation; blood pressure; bone fracture; tooth
dentist; eye glasses vision; hair haircut; baby newborn infant; grandparent grandma grandpa; roommate flatmate
housemate; customer client; store shop boutique bakery; open launch opened; project work; meeting call; deadline due;
conference summit convention; award prize recognition honor; certificate license certification; scholarship grant
funding; passport visa; suitcase luggage; souvenir gift; museum gallery exhibit exhibition; theater play stage musical;
magic fantasy wizard; science scientific; history historical; language spanish french speak; pottery clay ceramics
bowl mug; knit crochet sewing yarn; wood carpentry carve woodworking; instrument play; comfort soothe reassure;
prepare ready preparation; attend went join go; receive got gift; lend borrow; keep save; collect collection; injured
hurt; accident crash; storm hurricane flood; fire burn; police theft stolen robbed; lost missing; found discover;
neighbor street; park playground; zoo aquarium; bird feeder; horse riding stable; star telescope stargazing meteor
"""
_CLASSES: Final = """
instrument: guitar piano violin drums drum flute cello saxophone clarinet ukulele keyboard trumpet bass banjo harp
sport: soccer football basketball tennis baseball volleyball hockey golf swim run surf ski skate yoga climb box karate
sport activity: hike swim camp run bike climb ski surf kayak dance yoga pottery paint fish tennis soccer
hobby: paint read hike cook bake garden photography knit pottery guitar chess dance fish camp write game woodworking
pet animal: dog cat puppy kitten hamster rabbit parrot turtle fish horse guinea lizard snake bird
animal: bear fox deer owl whale dolphin elephant lion tiger monkey bee turtle squirrel
dog breed: labrador retriever poodle beagle terrier husky shepherd collie corgi bulldog
food dish meal cuisine: pizza pasta sushi taco curry soup salad burger ramen noodle steak chicken salmon lasagna stew
dessert snack: cake pie cookie brownie chocolate icecream muffin tart pudding donut
drink: coffee tea beer wine smoothie cocktail juice matcha
cuisine: italian thai mexican indian japanese chinese korean french greek ethiopian vietnamese
fruit: apple banana mango strawberry blueberry peach cherry orange lemon
vegetable: tomato carrot pepper cucumber lettuce basil zucchini kale
flower plant: rose tulip sunflower lily orchid daisy lavender fern succulent tomato basil herb
book genre: mystery thriller fantasy scifi romance biography memoir novel
movie genre: comedy horror drama action documentary thriller romance
music genre: jazz rock classical pop rap country folk blues metal
game: chess poker monopoly scrabble catan zelda mario minecraft boardgame puzzle cards
country: italy france spain japan canada mexico germany england brazil india greece thailand sweden portugal ireland
country: australia china korea norway peru vietnam morocco egypt turkey scotland iceland kenya argentina
city place: paris london tokyo rome berlin madrid chicago boston seattle barcelona york francisco angeles austin denver
state: california texas florida oregon colorado washington michigan ohio georgia arizona
continent: europe asia africa
season: spring summer fall autumn winter
month: january february march april may june july august september october november december
day: monday tuesday wednesday thursday friday saturday sunday
job profession: nurse teacher doctor engineer chef designer lawyer writer artist manager developer barista accountant
job profession: plumber electrician pilot waiter driver counselor architect photographer actor
family: mom dad brother sister son daughter grandma grandpa aunt uncle cousin niece nephew wife husband child
color: red blue green yellow purple orange pink black white brown gray
vehicle transport: car truck van motorcycle bike bus train scooter boat plane
device gadget tech: laptop phone tablet camera drone headphones printer console watch
subject: math physics chemistry biology history psychology economics art literature
degree: bachelor master phd psychology engineering business nursing law
illness condition disease: diabetes asthma cancer flu migraine arthritis covid allergy depression anxiety
injury: sprain ankle knee wrist broke concussion torn back
emotion feel: happy sad nervous proud excited scared grateful relieved anxious overwhelmed angry lonely
holiday: christmas thanksgiving easter halloween hanukkah diwali eid
relationship status: single married divorced dating engaged breakup parent
art medium: paint watercolor sculpture pottery drawing photography acrylic oil sketch mural
cloth: dress shirt jacket sweater scarf hat shoe jeans boots
craft: knit pottery sew crochet woodworking jewelry candle
nature outdoors: hike forest mountain lake beach trail camp park waterfall river
exercise: run gym yoga swim bike lift pilates jog hike
event: wedding concert festival parade conference party fair marathon workshop exhibition race
relative: cousin aunt uncle niece nephew grandma
social media platform: instagram youtube tiktok twitter facebook blog
church religion: christian muslim jewish buddhist catholic pray bible
cause charity: shelter homeless food bank fundraiser animal hospital children veteran
"""


@cache
def _related() -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for group in _SYNONYMS.split(";"):
        stems = {stem(word) for word in group.split()}
        for each in stems:
            found.setdefault(each, set()).update(stems - {each})
    for line in _CLASSES.strip().splitlines():
        names, _, members = line.partition(":")
        for name in names.split():
            found.setdefault(stem(name), set()).update(stem(word) for word in members.split())
    return {each: frozenset(others - {each}) for each, others in found.items()}


_BY_HAND: Final = 0.35
"""How well a word of the table by hand stands for another."""
_COMMON_WEIGHT: Final = 0.4
"""The weight of the most common word; what is in no table has 1."""
_MANY_WORDS: Final = 16_384
_COMMON_SCALE: Final = 1200


@cache
def _places() -> dict[str, int]:
    """Return the place of each common stem, from the most frequent on."""
    table = resources.files("twinraven.knowledge").joinpath("common_words.txt").read_text()
    return {term: place for place, term in enumerate(table.split())}


def is_common(term: str) -> bool:
    """Return whether a stem is among the most frequent of English."""
    return term in _places()


@lru_cache(_MANY_WORDS)
def rarity(term: str) -> float:
    """Return the rarity of a stem, from 0.4 for the most common to 1; frequencies fall with the rank (Zipf)."""
    places = _places()
    place = places.get(term, len(places))
    share = math.log1p(place / _COMMON_SCALE) / math.log1p(len(places) / _COMMON_SCALE)
    return _COMMON_WEIGHT + (1 - _COMMON_WEIGHT) * share


def related(term: str, *, is_name: bool = False) -> dict[str, float]:
    """Return the stems that may stand for this one, and how well; of a name no neighbours, which are other names."""
    found: dict[str, float] = {}
    if not is_name:
        found.update((other, similarity / 2) for other, similarity in nearest_stems(term))
    for each in _related().get(term, ()):
        found[each] = max(_BY_HAND, found.get(each, 0.0))
    found.pop(term, None)
    return found
