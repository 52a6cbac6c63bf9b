"""Plots of friends, quarrels and help."""

from moa_core.train.bundle.world.plots.registry import plot
from moa_core.train.bundle.world.world import World


@plot(things="toy vehicle music treasure clothes food")
def quarrel(w: World) -> None:
    """Two want the same thing, lose the joy of it, and make up."""
    w.do("both_want")
    w.do("words")
    w.do("pull" if w.thing.noun.kind in ("toy", "clothes") else "part")
    w.feel(w.hero, w.choose("angry", "sad"))
    w.scene()
    w.do("alone")
    w.maybe("elder_says")
    w.trait()
    w.scene()
    w.do(w.choose("hero_first", "friend_first"))
    w.do("share")


@plot(modes="human fable I")
def stranger(w: World) -> None:
    """Somebody new is alone, and is asked to play."""
    w.set(sign=w.choose("red boots", "a big suitcase", "a green scarf", "a patch on one knee"))
    w.do("new")
    w.do("others_say")
    w.scene()
    w.do("approach")
    w.do("answer")
    w.trait()
    w.do("game")
    w.maybe("next_day")


@plot(modes="fable", place="out", ages="small")
def small_help(w: World) -> None:
    """A small one is spared or helped, and pays it back."""
    w.set(big=w.casting.big())
    w.do("trapped")
    w.do("begs")
    w.do("frees")
    w.do("promise")
    w.scene()
    w.maybe("time_passes")
    w.do("in_need")
    w.do("comes")
    w.do("saves")
    w.do("thanks")


@plot(things="food")
def greedy(w: World) -> None:
    """One keeps all, and has little joy of it."""
    w.set(count=w.choose("six", "nine", "ten", "twelve"))
    w.do("finds")
    w.do("asked")
    w.do("refuses")
    w.scene()
    w.do("eats_all" if w.chance(0.5) else "spoils")
    w.do("elder_says" if w.chance(0.4) else "thinks")
    w.scene()
    w.do("shares")


@plot(weather="stormy rainy", place="out")
def storm(w: World) -> None:
    """A storm comes, and shelter is found."""
    w.do("sky")
    w.maybe("warn")
    w.do("breaks")
    w.feel(w.hero, "scared")
    w.scene()
    if w.chance(0.6):
        w.do("tries")
    w.do("shelter")
    w.do("others")
    w.trait()
    w.scene()
    w.shift(weather="sunny")
    w.do("over")
