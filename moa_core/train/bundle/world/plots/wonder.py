"""Plots of gentle magic: giants, dragons, lanterns that talk, wishes with a price."""

from moa_core.train.bundle.world.plots.registry import SMALL, plot
from moa_core.train.bundle.world.world import World


@plot(place="out")
def giant(w: World) -> None:
    """A hill turns out to be a giant asleep, who needs something small."""
    needs = ("a thorn in one toe", "a bird's nest in one ear", "a stone in one shoe")
    w.set(need=w.choose(*needs))
    w.beats("hill moves +scared | face trouble | climbs cures * | thanks gift?")


@plot(place="out")
def dragon(w: World) -> None:
    """A dragon without fire, and where the fire had gone."""
    w.set(cause=w.choose("it had eaten snow", "it was sad", "it had a cold", "it was lonely"))
    w.set(cure=w.choose("hot pepper soup", "a funny story", "a woolen scarf", "a song"))
    w.beats("rumor goes * | meets +scared no_fire | tells_cause tries_one brings_cure | fire use")


@plot(time="evening", modes="human fable")
def lantern(w: World) -> None:
    """An old lantern that talks, and shines only for others."""
    w.beats("finds speaks | rule tries_self | someone_needs shines * | dims understood")


@plot(things=SMALL)
def wish(w: World) -> None:
    """A wish comes true, with a cost that was not thought of."""
    wishes = {
        "to be as tall as a tree": "no door was high enough",
        "that everything would taste of honey": "even the soup was sweet",
        "never to have to sleep": "the nights were long and nobody was awake",
        "to be invisible": "nobody said hello",
        "that it would never rain": "the flowers hung their heads",
        "to have all the toys in the world": "there was no room left to play",
    }
    wished = w.choose(*wishes)
    w.set(wished=wished, cost=wishes[wished])
    giver = w.choose("a silver fish", "a tiny old man", "a star", "a white bird")
    w.set(giver=giver, the_giver=f"the {giver.removeprefix('a ')}")
    w.beats("helps_giver offered | wishes fun cost +sad | seeks * second | undone")


@plot(time="evening", place="out")
def star(w: World) -> None:
    """A star has fallen and wants to go home."""
    w.shift(time="night")
    w.set(way=w.choose("a kite", "the highest tree", "an owl", "the tower", "a very long ladder"))
    w.beats("falls finds speaks | warm_hands homesick tries * | way up | wink")


@plot(modes="human fable I", place="")
def shadow(w: World) -> None:
    """A shadow runs off and is coaxed back."""
    w.set(reason=w.choose("always being last", "being stepped on", "lying on the cold ground"))
    w.beats("notices strange | looks where spot_shadow | asks_why promise * | back")


@plot(place="out")
def paintbrush(w: World) -> None:
    """A paintbrush that makes things real, and runs dry."""
    w.set(drawn=w.choose("a bird", "an apple", "a small boat", "a butterfly", "a bun"))
    w.beats("gets paints real | crowd greedy_one | storm_or_need last_drop * | empty after")
