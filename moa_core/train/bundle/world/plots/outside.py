"""Plots of wind, water, snow and mud."""

from moa_core.train.bundle.world.plots.registry import plot
from moa_core.train.bundle.world.world import World


@plot(weather="windy", place="out", modes="human fable I")
def kite(w: World) -> None:
    """The wind takes a kite, and gives it back in its own way."""
    where = w.choose("a tall poplar", "an old oak", "a thorn tree", "a chestnut tree")
    w.set(tree=where, tail=w.choose("red", "yellow", "striped", "blue", "green"))
    w.beats("flies string +sad | throws climbs? * | waits/rake | again?")


@plot(modes="human fable", things="toy clothes food book", place="")
def too_high(w: World) -> None:
    """Something is out of reach, until two reach together."""
    high = "in" in w.place.tags
    w.set(up=w.choose("on top of the cupboard", "on the highest shelf") if high else
          w.choose("in the fork of a tree", "on a branch", "on top of a wall"))  # fmt: skip
    w.beats("sees jumps stacks falls? | friend_comes quarrel_who? shoulders down")


@plot(place="out water", modes="human fable")
def boat(w: World) -> None:
    """A boat drifts off, and something at hand brings it back."""
    w.set(oar=w.choose("a broad plank", "a frying pan", "an old broom", "two big spoons"))
    w.beats("gets_in packs? loose far +scared/worried | tries_hands")
    if w.chance(0.4):
        w.beats("leak bails")
    w.beats("* finds_oar rows | back")


@plot(weather="snowy", place="out", time="afternoon evening")
def snow_path(w: World) -> None:
    """Snow hides the path, and a light or a sound shows the way."""
    w.set(sign=w.choose("a small yellow light", "the sound of a bell", "the smell of smoke"))
    w.set(errand=w.choose("fetch milk", "bring soup to a neighbor", "get firewood"))
    w.beats("sets_out falls no_path +scared | circle keeps_warm? * sign | follows warm why_light?")


@plot(place="out", modes="human I")
def rescue(w: World) -> None:
    """An animal is stuck, and is fetched out with some thought."""
    traps = {
        "in a drain": "a basket on a string", "on a high roof": "a long ladder",
        "in a dry well": "a bucket on a rope", "in a thick thorn bush": "a pair of shears",
        "on a tiny island": "a wide plank", "behind a wall": "a trail of crumbs",
    }  # fmt: skip
    trap = w.choose(*traps)
    w.set(trap=trap, means=traps[trap])
    w.beats("sound finds | tries_first fails_why | idea works thanks_it | keeps/mother")


@plot(weather="rainy", place="out", modes="human fable")
def stuck(w: World) -> None:
    """A cart sticks in the mud, and the smallest makes the difference."""
    w.set(cart=w.choose("cart", "wagon", "wheelbarrow", "little truck", "bus"))
    w.set(load=w.choose("pumpkins", "apples", "flour", "books", "milk cans"))
    w.set(tiny=w.choose("a mouse", "a frog", "a beetle", "a wren") if "fable" in w.tags else
          w.choose("a very small boy", "somebody's baby brother", "a tiny girl"))  # fmt: skip
    w.beats("drives sticks | pulls_alone elder_pulls * friend_pulls")
    w.beats("| smallest laughs smallest_pulls out")


@plot(place="out water", modes="human fable I")
def bridge(w: World) -> None:
    """The bridge is gone, and one is made."""
    w.set(made=w.choose("a fallen birch", "flat stones, one by one", "two ladders and a door"))
    w.set(days=w.choose("two", "three", "four"))
    w.beats("must_cross gone +worried other_side | swims_no idea works_at | crosses name?")


@plot(time="evening", place="out")
def night_walk(w: World) -> None:
    """The lantern goes out, and other lights are seen."""
    w.set(lights=w.choose("fireflies", "the stars", "the moon on the puddles"))
    w.set(reason=w.choose("take medicine to a neighbor", "bring a letter", "fetch the doctor"))
    w.shift(time="night")
    w.beats("must_go lantern_out +scared | shapes counts? * lights | arrives praise?")
