"""Plots of what is made, mended, grown and learnt."""

from moa_core.train.bundle.world.plots.registry import SMALL, plot
from moa_core.train.bundle.world.world import World


@plot(ages="any")
def bake(w: World) -> None:
    """Something is baked, and its parts must be fetched from others first."""
    dishes = {
        "cake": ("flour", "eggs", "sugar"), "apple pie": ("flour", "apples", "butter"),
        "soup": ("carrots", "onions", "salt"), "bread": ("flour", "salt", "yeast"),
        "pancakes": ("flour", "eggs", "milk"), "nut cake": ("flour", "nuts", "honey"),
    }  # fmt: skip
    dish = w.choose(*dishes)
    parts = list(dishes[dish])
    w.rng.shuffle(parts)
    a_dish = dish if dish in ("soup", "bread", "pancakes") else f"a {dish}"
    w.set(dish=dish, a_dish=a_dish, one=parts[0], two=parts[1], three=parts[2])
    w.do("wants")
    w.scene()
    w.do("lacks")
    w.do("gets_one")
    w.do("gets_two")
    w.trait()
    w.scene()
    if w.chance(0.4):
        w.do("mishap")
    w.do("bakes")
    w.do("eats")


@plot(things="toy furniture music vehicle tool")
def broken(w: World) -> None:
    """Something breaks; it is owned up to, or found out, and mended."""
    w.do("owner")
    w.do("breaks")
    w.feel(w.hero, "sorry")
    w.scene()
    if w.chance(0.5):
        w.do("hides")
        w.do("asks")
    w.do("owns_up")
    w.scene()
    w.do("mends")
    w.maybe("better")


@plot(modes="human fable I", place="out")
def garden_grows(w: World) -> None:
    """A seed, days of waiting, a danger, and what came of it."""
    plants = (
        "sunflower",
        "pumpkin",
        "bean",
        "tomato plant",
        "apple tree",
        "strawberry plant",
        "rose",
    )
    w.set(plant=w.choose(*plants))
    w.do("seed")
    w.do("plants")
    w.scene()
    w.do("days")
    w.maybe("doubt")
    w.do("sprout")
    w.scene()
    w.do(w.choose("danger_snails", "danger_dry", "danger_wind"))
    w.trait()
    w.do("grown")


@plot(things="music toy vehicle")
def practice(w: World) -> None:
    """A skill that would not come, until it did."""
    skills = {
        "skate": "on the ice", "whistle": "with two fingers", "swim": "without help",
        "ride a bicycle": "without falling", "juggle": "with three plums",
        "skip stones": "across the water", "tie a bow": "with both eyes shut", "dive": "for pebbles",
        "stand on one leg": "for a whole minute",
    }  # fmt: skip
    skill = w.choose(*[each for each in skills if "human" in w.tags or "bicycle" not in each])
    w.set(skill=skill, how=skills[skill], days=w.choose("three", "five", "six", "ten"))
    w.do("wants")
    w.do("fails")
    w.do("laughed_at" if w.chance(0.4) else "fails_again")
    w.scene()
    w.do("advice")
    w.do("days")
    w.trait()
    w.scene()
    w.do("can")
    w.feel(w.hero, "proud")


@plot(things=SMALL, modes="human fable I")
def present(w: World) -> None:
    """A birthday, no money, and a present all the same."""
    w.do("birthday")
    w.do("no_money")
    w.scene()
    w.take(w.hero, w.thing)
    w.do("idea")
    w.do("makes")
    if w.chance(0.4):
        w.do("hides_it", spot=w.spot())
    w.scene()
    w.give(w.hero, w.friend, w.thing)
    w.do("gives")
    w.feel(w.friend, "glad")
    w.maybe("says")
