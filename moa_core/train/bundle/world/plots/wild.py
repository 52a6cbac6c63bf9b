"""Plots of animals: winter, eggs, tricks and warnings."""

from moa_core.train.bundle.world.plots.registry import plot
from moa_core.train.bundle.world.world import World


@plot(modes="fable", place="out", things="food", weather="cool foggy")
def winter_store(w: World) -> None:
    """One gathers for winter, one sings; both are needed."""
    w.beats("gathers sings | warns laughs first_snow | knocks doubts lets_in")
    w.beats("| long_nights song_worth")


@plot(modes="fable human I", place="out")
def egg(w: World) -> None:
    """An egg is found; whose is it?"""
    w.set(baby=w.choose("a duckling", "a small tortoise", "a gosling", "a lizard", "a baby swan"))
    w.beats("finds warm | asks_one asks_two | keeps_warm days * | crack follows mother?")


@plot(modes="fable", things="food", place="out")
def trick(w: World) -> None:
    """A flatterer gets what he wants, once."""
    w.take(w.hero, w.thing)
    w.beats("has comes | flatters opens")
    w.give(w.hero, w.other, w.thing)
    w.beats("loses +angry/sad | next_time flatters_again wiser * | laugh")


@plot(modes="fable", place="out water")
def warning(w: World) -> None:
    """The smallest notices the danger, and nobody listens at first."""
    danger = w.choose("the dam was leaking", "the river was rising", "the bank was cracking")
    w.set(danger=danger)
    w.beats("notices | tells_one tells_all laughed +sad/angry | shows_proof *")
    w.beats("| work saved | listen")


@plot(modes="fable human")
def missed(w: World) -> None:
    """Two friends set out to visit each other at the same moment, by different paths."""
    w.set(gift=w.choose("a pie", "a jar of jam", "a bunch of flowers", "a pot of soup"))
    w.set(other_gift=w.choose("a basket of pears", "a cheese", "a loaf of bread", "a bag of nuts"))
    w.beats("sets_out | friend_sets_out | empty_house friend_empty *")
    w.beats("| wait_there | both_back meet")


@plot(modes="fable", weather="snowy cold frosty stormy", place="out")
def full_house(w: World) -> None:
    """On a cold night one after another asks to come in."""
    first, second, third = (w.casting.stranger(w.hero, None, None) for _ in range(3))
    w.set(one=first, two=second, three=third)
    w.beats("inside first_knock | second_knock third_knock | full +worried * | warm_night morning")


@plot(modes="fable", place="out")
def voice(w: World) -> None:
    """A singer loses the voice and finds out who listens."""
    w.set(cure=w.choose("honey and thyme", "warm milk", "mint tea", "three days of silence"))
    w.beats("sings gone | silence_noticed hides? | visitor cure * | returns sings_new")


@plot(modes="fable human", weather="hot sunny", place="out")
def drought(w: World) -> None:
    """The well is dry, and an old or small one remembers water."""
    w.set(where=w.choose("under the fig tree", "behind the gray rock", "below the old wall"))
    w.beats("dry quarrel_water | old_memory nobody_believes | digs joins * | water shared")
