"""Plots of friends, quarrels and help."""

from moa_core.train.bundle.world.plots.registry import plot
from moa_core.train.bundle.world.world import World


@plot(modes="human fable", things="toy vehicle music treasure clothes")
def quarrel(w: World) -> None:
    """Two want the same thing, lose the joy of it, and make up."""
    tug = "pull" if w.thing.noun.kind in ("toy", "clothes") else "part"
    w.beats(f"both_want words {tug} +angry/sad | alone elder_says? *")
    w.beats("| hero_first/friend_first share")


@plot()
def stranger(w: World) -> None:
    """Somebody new is alone, and is asked to play."""
    signs = "red boots, a big suitcase, a green scarf, a strange hat, one blue mitten, a yellow bag"
    w.set(sign=w.choose(*signs.split(", ")))
    w.beats("new others_say | approach answer * game next_day?")


@plot(modes="fable", place="out", ages="small")
def small_help(w: World) -> None:
    """A small one is spared or helped, and pays it back."""
    w.set(big=w.casting.big())
    w.beats("trapped begs frees promise | time_passes? in_need comes saves thanks")


@plot(things="food dish")
def greedy(w: World) -> None:
    """One keeps all, and has little joy of it."""
    w.set(count=w.choose("six", "nine", "ten", "twelve"))
    w.beats("finds asked refuses | eats_all/spoils elder_says/thinks | shares")


@plot(weather="stormy rainy", place="out")
def storm(w: World) -> None:
    """A storm comes, and shelter is found."""
    w.beats("sky warn? breaks +scared | tries? shelter others * |")
    w.shift(weather="sunny")
    w.do("over")
