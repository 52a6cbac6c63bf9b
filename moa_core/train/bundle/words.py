"""Everyday words, names and made-up words for the tasks."""

import random

_WORDS_TEXT = """
    apple apron arrow autumn badge bagel bakery balloon banana barn basket bath beach bean bear
    beard bed bee bell belt bench berry bicycle bird biscuit blanket blossom blue boat bone book
    boot bottle bowl box branch bread breeze brick bridge broom brother brown brush bucket bus
    butter button cabin cactus cake camel camera candle candy canoe captain car card carpet carrot
    castle cat cave chair chalk cheese cherry chest chicken child circle circus city clock cloud
    clover coat coconut coffee coin comb cookie copper coral corn cotton cousin cow crab crayon
    cricket crow crown cup curtain daisy dancer desert desk diamond dinner dog doll dolphin donkey
    door dragon drawer dress drum duck eagle ear earth egg elbow elephant engine evening eye face
    fairy family farm farmer feather fence field finger fire fish flag flower flute foot forest
    fork fountain fox friend frog fruit garden gate ghost giant ginger giraffe glass glove goat
    gold goose grape grass green guitar hammer hand hat hawk hedgehog helmet hill honey horn horse
    hospital house ice igloo insect island jacket jam jar jelly jewel juice jungle kettle key
    king kitchen kite kitten knife ladder lake lamb lamp lantern leaf lemon letter library lion
    lizard lobster lunch machine magic mango map marble market meadow medal melon milk mirror
    monkey moon morning moss mountain mouse mud muffin mushroom music nail napkin necklace needle
    nest night noodle nose notebook nut oak oar ocean octopus office onion orange orchard otter
    oven owl oyster paint palace pan pancake panda paper parrot party path peach peanut pear
    pearl pebble pencil penguin pepper piano pickle picture pie pig pigeon pillow pineapple pink
    pirate planet plant plate pocket pond pony potato present prince pumpkin puppet puppy purple
    purse puzzle queen quilt rabbit raccoon radio rain rainbow raven ribbon rice ring river road
    robin robot rocket roof room rooster rope rose ruler sail salad salt sand sandwich saucer
    scarf school scissors sea seal seed shadow shark sheep shell ship shoe shop shoulder silver
    sister skirt sky sled snail snake snow soap sock sofa soup spider spinach spoon spring square
    squirrel stamp star station stone storm story straw strawberry street sugar suitcase summer
    sun swan sweater table tail tailor tea teacher teapot tent thunder ticket tiger toast toe
    tomato tooth towel tower toy tractor train treasure tree triangle trumpet tulip tunnel turkey
    turtle umbrella uncle valley vase village violin wagon wall walnut watch water waterfall wave
    whale wheat wheel whistle white wind window wing winter wizard wolf wood wool worm yard yellow
    zebra zipper
"""
_HE_TEXT = "Tom Ben Sam Max Leo Tim Jack Omar Noah Luis Adam Finn Hugo Ravi Paul Dan"
_SHE_TEXT = "Lily Mia Anna Sara Lucy Emma Zoe Nora Amy Rosa Eva Kate Ella Maya Sue Jane"
_THINGS_TEXT = """
    apples balls books buttons cards carrots coins cookies crayons cups eggs flowers grapes
    lemons marbles nuts oranges pears pebbles pencils plums shells stamps stars stickers stones
    toys tickets beads ribbons
"""
_HOLDERS_TEXT = "bags baskets boxes bowls drawers jars packs rows trays"

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS: tuple[str, ...] = tuple(_WORDS_TEXT.split())
THINGS: tuple[str, ...] = tuple(_THINGS_TEXT.split())
HOLDERS: tuple[str, ...] = tuple(_HOLDERS_TEXT.split())
PEOPLE: tuple[tuple[str, str], ...] = tuple(
    (name, pronoun)
    for pronoun, names in (("he", _HE_TEXT), ("she", _SHE_TEXT))
    for name in names.split()
)


def invented_word(rng: random.Random) -> str:
    """A made-up word of 3 to 9 letters that can be spelled but was never learnt by heart."""
    length = rng.randint(3, 9)
    word = "".join(
        rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiou") + rng.choice(("", "", *"lnrst"))
        for _ in range(length)
    )
    return word[:length]
