"""Plots of what is made, mended, grown and learnt."""

from moa_core.train.bundle.world.plots.registry import SMALL, plot
from moa_core.train.bundle.world.world import World


@plot(ages="any")
def bake(w: World) -> None:
    """Something is baked, and its parts must be fetched from others first."""
    dishes = {
        "a cake": "flour eggs sugar", "an apple pie": "flour apples butter",
        "soup": "carrots onions salt", "bread": "flour salt yeast", "pancakes": "flour eggs milk",
        "a nut cake": "nuts honey flour", "porridge": "oats milk honey",
        "a pizza": "cheese tomatoes flour", "a plum tart": "plums flour butter",
        "a pumpkin pie": "pumpkin sugar eggs", "stew": "beans potatoes onions",
    }  # fmt: skip
    dish = w.choose(*dishes)
    one, two, three = w.rng.sample(dishes[dish].split(), 3)
    w.set(a_dish=dish, dish=dish.removeprefix("a ").removeprefix("an "))
    w.set(one=one, two=two, three=three)
    w.beats("wants | lacks gets_one gets_two * | mishap? bakes eats")


@plot(things="toy furniture music vehicle tool", place="in")
def broken(w: World) -> None:
    """Something breaks; it is owned up to, or found out, and mended."""
    w.beats("owner breaks +sorry/scared |")
    if w.chance(0.5):
        w.beats("hides asks")
    w.beats("owns_up | mends better?")


@plot(place="out")
def garden_grows(w: World) -> None:
    """A seed, days of waiting, a danger, and what came of it."""
    plants = "sunflower, pumpkin, bean, tomato plant, apple tree, rose bush, pear tree, melon"
    w.set(plant=w.choose(*plants.split(", ")))
    w.beats("seed plants | days doubt? sprout | danger_snails/danger_dry/danger_wind * grown")


@plot()
def practice(w: World) -> None:
    """A skill that would not come, until it did."""
    skills = {
        "skate": "on the ice", "whistle": "with two fingers", "swim": "without help",
        "juggle": "with three plums", "skip stones": "across the water", "dive": "for pebbles",
        "stand on one leg": "for a whole minute", "play the flute": "without a squeak",
        "jump rope": "fifty times", "do a cartwheel": "without falling",
    }  # fmt: skip
    if "human" in w.tags:
        skills["ride a bicycle"] = "without falling"
        skills["tie a bow"] = "with both eyes shut"
    skill = w.choose(*skills)
    w.set(skill=skill, how=skills[skill], days=w.choose("three", "five", "six", "ten"))
    w.beats("wants fails fails_again/laughed_at | advice days * | can +proud")


@plot(things=SMALL)
def present(w: World) -> None:
    """A birthday, no money, and a present all the same."""
    w.take(w.hero, w.thing)
    w.beats("birthday no_money | idea makes")
    if w.chance(0.4):
        w.do("hides_it", spot=w.spot())
    w.give(w.hero, w.friend, w.thing)
    w.beats("| gives says?")
