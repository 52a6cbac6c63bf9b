"""Plots of fears, firsts and contests."""

from moa_core.train.bundle.world.plots.registry import plot
from moa_core.train.bundle.world.world import World


@plot(place="out water")
def deep_water(w: World) -> None:
    """Fear of the water goes little by little."""
    w.beats("others_swim stays +sad | elder_asks tells | toes knees * under? | floats after")


@plot(place="in town")
def stage(w: World) -> None:
    """Stage fright, and a forgotten line."""
    w.set(part=w.choose("a tree", "the moon", "a king", "a lion", "the north wind", "a snail"))
    w.set(line=w.choose("I have seen it all", "Who goes there", "Tonight we shall dance"))
    w.beats("part learns days_before? | evening +scared peeks * | forgets helps goes_on | clap")


@plot(ages="any", place="in town")
def first_day(w: World) -> None:
    """The first day in a new school or job; things go wrong and then right."""
    jobs = {
        "in the bakery": "salt for sugar", "at the post office": "two letters",
        "in the hat shop": "two hats", "in the flower shop": "two names", "at the inn": "two soups",
    }  # fmt: skip
    job = w.choose(*jobs)
    w.set(job=job, slip=jobs[job])
    w.beats("begins nervous | tasks slip +worried/sorry | elder_sees own_story * | fixes evening")


@plot(modes="human I", place="in home")
def tooth(w: World) -> None:
    """A loose tooth, lost and found, or not."""
    w.beats("wobbles tries afraid? | out")
    if w.chance(0.6):
        w.beats("gone searches letter")
    else:
        w.beats("keeps")
    w.beats("| morning")


@plot(place="out")
def race(w: World) -> None:
    """A race in which somebody stops to help."""
    w.set(goal=w.choose("the old mill", "the big oak", "the last house", "the white gate"))
    w.set(prize=w.choose("a basket of plums", "a blue ribbon", "a big cheese", "a drum"))
    w.beats("announced favorite | start leads | falls stops others_pass * | last surprise")


@plot(modes="human fable", ages="any")
def contest(w: World) -> None:
    """A contest, a secret done to the other's work, and what came of it."""
    w.set(what=w.choose("the biggest pumpkin", "the best jam", "the finest scarecrow",
                        "the tallest sunflower", "the best bread"))  # fmt: skip
    w.beats("year rival | works_hard night_before temptation resists *")
    w.beats("| accident helps_rival | judge")


@plot(modes="human fable", place="")
def hide_seek(w: World) -> None:
    """A game in which one hides too well."""
    spot = w.spot()
    w.set(spot=spot)
    w.beats("counts runs_off | finds_others cannot_find | waits thinks_forgotten? +sad/worried")
    w.beats("| clue * found")


@plot(modes="human I", place="in home")
def new_pet(w: World) -> None:
    """An animal that hides at first, and is won by patience."""
    w.beats("wish brings hides | tries_calling elder_advice | sits_still days * | comes name")


@plot(place="")
def lie(w: World) -> None:
    """A small lie grows, and is taken back."""
    w.set(lie=w.choose("seen a bear", "caught a fish as long as a boat", "met the king",
                       "been to the moon mountain", "found a gold mine"))  # fmt: skip
    w.beats("says believe more | show_us +scared/worried sleepless?")
    w.beats("| truth quiet friend_says * after")
