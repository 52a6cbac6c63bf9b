"""Plots of what is lost, looked for and found."""

from moa_core.train.bundle.world.plots.registry import SMALL, plot
from moa_core.train.bundle.world.world import World


@plot(things=SMALL)
def lost(w: World) -> None:
    """Something dear is gone, and looked for in several spots."""
    w.take(w.hero, w.thing)
    w.do("own")
    w.scene()
    spots = [w.spot() for _ in range(w.rng.choice((2, 2, 3)))]
    w.hide(w.thing, spots[-1])
    w.do("miss")
    w.feel(w.hero, w.choose("sad", "worried"))
    with_friend = w.chance(0.7)
    if with_friend:
        w.scene()
        w.do("ask")
    for spot in spots[:-1]:
        if not w.search(w.hero, w.thing, spot):
            w.do("search", spot=spot)
    w.trait()
    finder = w.friend if with_friend and w.chance(0.6) else w.hero
    if w.chance(0.5):
        w.do("clue", core=False)
    w.scene()
    w.search(finder, w.thing, spots[-1])
    w.do("found_by_friend" if finder is w.friend else "found", spot=spots[-1])
    if finder is w.friend:
        w.give(w.friend, w.hero, w.thing)
    w.maybe("after")


@plot(modes="human I", place="out")
def lost_pet(w: World) -> None:
    """A pet runs off and comes home, or is found by what it likes."""
    pet = w.role("pet")
    w.set(sound=w.choose("a bell", "a bicycle bell", "thunder", "a loud bang"))
    w.do("have", pet=pet)
    w.scene()
    w.do("gone")
    w.feel(w.hero, "worried")
    last = w.spot()
    for _ in range(w.rng.choice((1, 2))):
        w.do("call", spot=w.spot())
    w.scene()
    if w.chance(0.5):
        w.do("asks_other")
        w.do("hint", spot=last)
    else:
        w.do("idea", spot=last)
    w.do("there", spot=last)
    w.feel(w.hero, "glad")


@plot(time="morning afternoon", place="out")
def way_home(w: World) -> None:
    """Somebody small is lost and finds the way home with help."""
    w.beats("stray +scared/sad | wrong_way wait? meets tells * | remembers follows")
    w.shift(time="evening")
    w.do("home")


@plot(modes="human", place="in", things="treasure book toy clothes")
def treasure_map(w: World) -> None:
    """A map leads to a box; what is in it is less, or more, than was hoped for."""
    first, second = w.spot(), w.spot()
    w.hide(w.thing, second)
    w.set(steps=w.choose("seven", "ten", "twelve", "nine"))
    w.do("map", spot=first)
    w.beats("reads | steps")
    if w.chance(0.6):
        w.beats("nothing upside_down")
    w.scene()
    w.search(w.hero, w.thing, second)
    w.do("box", spot=second)
    w.do("whose")


@plot(time="evening")
def noise(w: World) -> None:
    """A noise in the dark, feared for nothing."""
    w.shift(time="night")
    sources = {
        "a loose shutter": "tap, tap, tap",
        "a dripping tap": "plip, plip, plip",
        "a branch against the wall": "knock, knock",
        "an empty can in the wind": "clang, clang",
        "a hungry hedgehog with its nose in a pot": "rattle, rattle",
        "a moth in a paper lamp": "flip, flap, flip",
    }
    source = w.choose(*sources)
    w.set(source=source, sound=sources[source])
    w.beats("hears +scared guess | goes louder? * sees laughs?")
