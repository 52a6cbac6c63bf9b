"""Plots of streets, markets, visits and feasts."""

from moa_core.train.bundle.world.plots.registry import plot
from moa_core.train.bundle.world.world import World


@plot(modes="human fable I", place="out town")
def errand(w: World) -> None:
    """A market errand with a mistake that turns out well, or is put right."""
    pairs = {
        "beans": "beads", "a hen": "a pen", "a pot": "a goat", "thread": "bread",
        "flour": "a flower", "a pan": "a fan", "ham": "jam", "a bowl": "an owl",
    }  # fmt: skip
    wanted = w.choose(*pairs)
    w.set(wanted=wanted, wrong=pairs[wanted])
    w.beats("sent repeats | noise_town forgets buys * | home_again laughs | swaps/useful")


@plot(place="out", modes="human fable I")
def stall(w: World) -> None:
    """A stall without customers, and the thought that brings them."""
    goods = {
        "lemonade": "a cup", "apple juice": "a cup", "cookies": "a cookie",
        "raspberries": "a bowl", "hot chestnuts": "a bag", "old books": "a book",
        "paper flowers": "a flower",
    }  # fmt: skip
    ware = w.choose(*goods)
    w.set(ware=ware, piece=goods[ware], price=w.choose("two coins", "one coin", "a penny"))
    w.set(why=w.choose("save for a drum", "mend the roof", "buy a present", "pay for a window"))
    w.beats("opens price | nobody waits? +sad/bored | first_guest idea * | crowd counts")


@plot(modes="human fable I", place="out")
def trade(w: World) -> None:
    """A chain of trades, from little to what was needed."""
    goods = (
        "piece of string, pencil, cup of milk, bag of nuts, blue button, jar of honey, warm scarf, "
        "tin whistle, basket, rusty key, pair of boots, woolen blanket, candle, pot of glue"
    )
    first, second, third, fourth = w.rng.sample(goods.split(", "), 4)
    w.set(first=f"a {first}", second=f"a {second}", third=f"a {third}", fourth=f"a {fourth}")
    w.set(the_second=f"the {second}", the_third=f"the {third}")
    w.beats("needs has | swap_one swap_two * | swap_three gets")


@plot(modes="human fable", place="out")
def message(w: World) -> None:
    """A message changes on its way from mouth to mouth."""
    messages = {
        "Come at noon and bring a spoon": "The moon fell down and broke the town",
        "Bring your coats, it will snow": "Bring your goats to the show",
        "The ducks are on the lake": "The trucks are full of cake",
        "Granny lost her hat": "Granny chased a cat",
    }
    right = w.choose(*messages)
    w.set(right=right, wrong=messages[right])
    w.beats("given passes | passes_on grows | arrives panic * | finds_out clear")


@plot(modes="human I", place="out town")
def wrong_bus(w: World) -> None:
    """The wrong bus, a kind driver, and the way back."""
    w.set(right=w.choose("seven", "twelve", "nine"), wrong=w.choose("seventeen", "two", "nineteen"))
    w.set(stop=w.choose("the sea", "the zoo", "the fire station", "a field of sunflowers"))
    w.beats("waits_bus gets_on | looks_out nothing_known +scared/worried")
    w.beats("| driver asks * | end_stop shown back")


@plot(modes="human I", things="book", place="in")
def borrowed(w: World) -> None:
    """What was borrowed gets spoiled, and is made good."""
    w.set(harm=w.choose("a cup of cocoa", "rain", "the dog", "jam"))
    w.beats("borrows loves | harm +sorry/scared | thinks_of hides? | goes tells | makes_good")


@plot(modes="human I", place="in home")
def moving(w: World) -> None:
    """A move to a new house, and what makes it a home."""
    w.set(sound=w.choose("a train at night", "an owl on the roof", "frogs", "bells", "the sea"))
    w.beats("boxes goodbye +sad | new_house empty first_night")
    w.beats("| sound_heard * knock | shows home_now")


@plot(place="out", time="evening", modes="human fable I")
def festival(w: World) -> None:
    """A feast is nearly spoiled, and becomes better for it."""
    w.set(feast=w.choose("the lantern festival", "the harvest feast", "the spring fair",
                         "the midsummer dance", "the kite festival"))  # fmt: skip
    w.beats("ready task | spoiled +sad everyone | idea gather * | night remembered?")


@plot(modes="human I", place="")
def grandmother(w: World) -> None:
    """A visit to somebody old, boring at first."""
    granny = w.casting.granny()
    boxes = ("a tin of buttons", "a box of photographs", "a drawer of keys", "a bag of old coins")
    w.set(elder=granny, box=w.choose(*boxes))
    w.beats("sent bored | rain_or_clock? box asks | story_one story_two * | evening promise")


@plot(modes="human fable", place="out", weather="sunny hot cool", things="food dish")
def picnic(w: World) -> None:
    """A picnic is spoiled by ants, cows or rain, and saved."""
    w.beats("packs walks | spread ants/cow/wind_takes +angry/sad")
    w.beats("| hungry? stranger_comes * | shares_all")
