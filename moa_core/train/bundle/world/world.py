"""The state of a small world, what can be done in it, and the log of what was done."""

import random

from moa_core.train.bundle.world.casting import Casting, is_like
from moa_core.train.bundle.world.entities import Being, Entity, Group, Place, Thing
from moa_core.train.bundle.world.facts import Event, Given, Plot

_WEATHER = {
    "spring": ("sunny", "rainy", "windy", "foggy"),
    "summer": ("sunny", "sunny", "hot", "windy", "stormy"),
    "autumn": ("windy", "rainy", "foggy", "cool", "sunny"),
    "winter": ("snowy", "snowy", "cold", "frosty", "windy"),
}
_TIMES = ("morning", "morning", "morning", "afternoon", "afternoon", "evening", "day", "day")


class World:
    """Cast, time and weather of one story; actions change it and write the log."""

    def __init__(self, rng: random.Random, plot: Plot, words: tuple[str, ...] = ()) -> None:
        self.rng = rng
        self.plot = plot
        self.given = Given.of(words)
        self.log: list[Event] = []
        self.tags: set[str] = set()
        self.detail = rng.choice((0.15, 0.4, 0.6, 0.8, 1.0))
        self.cast: dict[str, Entity] = {}
        self._held: dict[Thing, Being | None] = {}
        self._hidden: dict[Thing, str] = {}
        self._set_time()
        self._set_mode()
        self.casting = Casting(rng, "fable" in self.tags, "I" in self.tags)
        self._cast_main()

    # Who, what and where.

    @property
    def hero(self) -> Being:
        """The one the story is about."""
        return self._being("hero")

    @property
    def friend(self) -> Being:
        """The hero's friend, sister, neighbour."""
        return self._being("friend")

    @property
    def other(self) -> Being:
        """A stranger, a rival, a customer."""
        return self._being("other")

    @property
    def elder(self) -> Being:
        """Somebody who knows more."""
        return self._being("elder")

    @property
    def animal(self) -> Being:
        """An animal that does not talk."""
        return self._being("animal")

    @property
    def thing(self) -> Thing:
        """What the story is about."""
        found = self.role("thing")
        assert isinstance(found, Thing)
        return found

    @property
    def place(self) -> Place:
        """Where it happens."""
        found = self.role("place")
        assert isinstance(found, Place)
        return found

    def role(self, name: str) -> Entity:
        """The entity of a role, made when it is first asked for."""
        if name not in self.cast:
            self.cast[name] = self._make(name)
        return self.cast[name]

    def set(self, **roles: Entity) -> None:
        """Give roles to entities."""
        self.cast.update(roles)

    def a_thing(self, *kinds: str) -> Thing:
        """Another thing, of one of the kinds."""
        noun = self.given.noun(lambda noun: noun.kind in kinds)
        return self.casting.thing(noun, None, kinds)

    def spot(self) -> str:
        """A spot of the place that was not used before."""
        return self.place.spots.pop() if self.place.spots else "behind the last corner"

    # What can be done.

    def do(self, name: str, core: bool = True, **roles: Entity) -> None:
        """Log an event that changes nothing but what the wordings say."""
        section = name if "." in name else f"{self.plot.name}.{name}"
        self.log.append(Event(section, roles, core, frozenset(self.tags)))

    def maybe(self, name: str, chance: float = 0.6, **roles: Entity) -> bool:
        """Log an event that the story can do without, more often where it is told at length."""
        if self.rng.random() < chance * self.detail * 1.3:
            self.do(name, core=False, **roles)
            return True
        return False

    def beats(self, script: str) -> None:
        """Log many events: `name?` may be left out, `one/other` is a choice, `|` a new scene.

        `+mood` is what the hero feels, `*` what the hero does who has such a trait.
        """
        for beat in script.split():
            if beat == "|":
                self.scene()
            elif beat == "*":
                self.trait()
            elif beat[0] == "+":
                self.feel(self.hero, self.choose(*beat[1:].split("/")))
            elif beat.endswith("?"):
                self.maybe(self.choose(*beat[:-1].split("/")))
            else:
                self.do(self.choose(*beat.split("/")))

    def hide(self, thing: Thing, spot: str) -> None:
        """The thing lies at the spot now."""
        self._held[thing] = None
        self._hidden[thing] = spot

    def search(self, being: Being, thing: Thing, spot: str) -> bool:
        """Look at a spot; whether the thing was there."""
        found = self._hidden.get(thing) == spot
        if found:
            self.take(being, thing)
        return found

    def take(self, being: Being, thing: Thing) -> None:
        """The being holds the thing, which nobody else may be holding."""
        holder = self._held.get(thing)
        if holder not in (None, being):
            raise ValueError(f"{thing.noun.word} is held by {holder.later}.")
        self._held[thing] = being
        self._hidden.pop(thing, None)

    def give(self, giver: Being, taker: Being, thing: Thing) -> None:
        """The thing changes hands."""
        if self._held.get(thing) is not giver:
            raise ValueError(f"{giver.later} has no {thing.noun.word} to give.")
        self._held[thing] = taker

    def holder(self, thing: Thing) -> Being | None:
        """Who holds the thing."""
        return self._held.get(thing)

    def shift(self, time: str = "", weather: str = "") -> None:
        """Time goes on, or the weather changes."""
        for new, family in ((time, _TIMES), (weather, sum(_WEATHER.values(), ()))):
            if new:
                self.tags.difference_update(family, {"night"})
                self.tags.add(new)

    def trait(self) -> None:
        """The hero does what is like the hero."""
        if self.hero.family and self.chance(0.3 + 0.4 * self.detail):
            self.do(f"trait.{self.hero.family}.act", core=False)

    def feel(self, being: Being, mood: str) -> None:
        """Somebody feels something."""
        self.do(f"feel.{mood}", core=False, who=being)

    def scene(self) -> None:
        """A new paragraph begins."""
        self.log.append(Event("", {}, True, frozenset()))

    def chance(self, share: float) -> bool:
        """Whether it comes to pass."""
        return self.rng.random() < share

    def choose(self, *options: str) -> str:
        """One of the options."""
        return self.rng.choice(options)

    # Set-up.

    def _being(self, name: str) -> Being:
        found = self.role(name)
        assert isinstance(found, Being)
        return found

    def _set_time(self) -> None:
        self.season = self.rng.choice(tuple(_WEATHER))
        wanted = [each for each in _WEATHER[self.season] if each in self.plot.weather]
        while self.plot.weather and not wanted:
            self.season = self.rng.choice(tuple(_WEATHER))
            wanted = [each for each in _WEATHER[self.season] if each in self.plot.weather]
        self.weather = self.rng.choice(wanted or _WEATHER[self.season])
        self.time = self.rng.choice(self.plot.time or _TIMES)
        self.tags |= {self.season, self.weather, self.time}

    def _set_mode(self) -> None:
        modes, kinds = self.plot.modes, {noun.kind for noun in self.given.nouns}
        likely = 0.4 if "person" not in kinds else 0.0
        if "animal" in kinds:
            likely = 0.5 if "person" in kinds else 1.0
        fable = "human" not in modes or ("fable" in modes and self.rng.random() < likely)
        self.tags.add("fable" if fable else "human")
        if not fable and "I" in modes and self.rng.random() < 0.15:
            self.tags.add("I")

    def _cast_main(self) -> None:
        fable = "fable" in self.tags
        kind = "animal" if fable else "person"
        trait = self.given.adjective("trait")
        noun = self.given.noun(lambda noun: noun.kind == kind and not noun.tags & {"water"})
        hero = self.casting.hero(noun, trait, self.plot.ages)
        self.cast["hero"] = hero
        tags = (*self.plot.place, *(("wild",) if fable and "in" not in self.plot.place else ()))
        where = self.given.noun(lambda noun: noun.kind == "place" and is_like(noun.word, tags))
        place = self.casting.place(where, tags)
        self.cast["place"] = place
        self.tags |= {
            hero.family,
            hero.age,
            "named" if hero.name else "unnamed",
            *(f"at_{tag}" for tag in place.tags),
        }
        if self.plot.things:
            self.cast["thing"] = self._make("thing")

    def _make(self, name: str) -> Entity:
        given, casting, kind = self.given, self.casting, self._kind()
        if name == "both":
            return Group((self.hero, self.friend))
        if name.startswith("place"):
            noun = given.noun(lambda noun: noun.kind == "place")
            return casting.place(noun, ("out",))
        if name.startswith("thing"):
            kinds = self.plot.things or ("toy", "treasure", "clothes")
            noun = given.noun(lambda noun: noun.kind in kinds)
            groups = ("food",) if noun and noun.kind in ("food", "dish") else ("colour", "thing")
            return casting.thing(noun, given.adjective(*groups), kinds)
        if name == "elder":
            return casting.elder(self.hero, given.noun(lambda noun: noun.kind == kind))
        if name in ("animal", "pet"):
            ours = self.plot.animals
            noun = given.noun(lambda noun: noun.kind == "animal" and bool(noun.tags & ours))
            return casting.animal(noun, name == "pet")
        noun = given.noun(lambda noun: noun.kind == kind and "water" not in noun.tags)
        if name == "friend":
            return casting.friend(self.hero, noun, given.adjective("trait"))
        return casting.stranger(self.hero, noun, given.adjective("trait"))

    def _kind(self) -> str:
        return "animal" if "fable" in self.tags else "person"
