"""Plots, their world, and the log of what happens in it."""

from __future__ import annotations

import random
from functools import cache
from typing import NamedTuple

from moa_core.train.bundle.words import read
from moa_core.train.bundle.world.casting import Casting
from moa_core.train.bundle.world.entities import (
    Being,
    Entity,
    Given,
    Group,
    Noun,
    Place,
    Thing,
    drawn,
    lexicon,
    weather,
)
from moa_core.train.bundle.world.grammar import guarded, section


class Plot(NamedTuple):
    """What happens in a story, and what it needs; see plots.toml."""

    name: str
    beats: list[str | list[str]]
    roles: dict[str, str]
    takes: dict[str, str]
    cast: dict[str, str]
    asks: dict[str, tuple[str, ...]]  # modes, things, place, ages, weather, time, animals


class Event(NamedTuple):
    """Something that happened: its section of wordings, or "" for a new scene, and its roles.

    core  told even in a brief story
    """

    name: str
    roles: dict[str, Entity]
    core: bool
    tags: frozenset[str]


@cache
def plots() -> dict[str, Plot]:
    usual = {"modes": "human fable I", "ages": "child", "animals": "land bird"}
    asked = ("modes", "things", "place", "ages", "weather", "time", "animals")
    return {
        name: Plot(
            name, found["beats"], found.get("roles", {}), found.get("takes", {}),
            found.get("cast", {}),
            {key: tuple(found.get(key, usual.get(key, "")).split()) for key in asked},
        )
        for file in ("plots", "plots_home", "plots_away")
        for name, found in read(f"world/{file}.toml").items()
    }  # fmt: skip


class World:
    """One run of a plot: its cast, time, weather and log."""

    def __init__(
        self, rng: random.Random, plot: Plot, words: tuple[str, ...] = (), hero: Being | None = None
    ) -> None:
        """hero: the being that an opening from elsewhere has introduced"""
        self.rng, self.plot, self.given = rng, plot, Given(words)
        self.introduced = hero
        self.log: list[Event] = []
        self.tags: set[str] = set()
        self.detail = rng.choice((0.15, 0.4, 0.6, 0.8, 1.0))
        self.cast: dict[str, Entity] = {}
        self._set_time()
        self._set_mode()
        self.casting = Casting(rng, plot.name, "fable" in self.tags, "I" in self.tags)
        self.hero, self.place = self._cast_main()
        self._set_roles()
        for beat in plot.beats:
            for one in (beat if isinstance(beat, str) else rng.choice(beat)).split():
                self._happen(one)

    def role(self, name: str) -> Entity:
        """The entity of a role, made at the first call."""
        if name not in self.cast:
            self.cast[name] = self._make(name)
        return self.cast[name]

    # What happens; plots.toml says how a beat is written.

    def _happen(self, beat: str) -> None:
        if beat == "|":
            self.log.append(Event("", {}, True, frozenset()))
        elif beat == "*":
            if self.hero.family and self.rng.random() < 0.3 + 0.4 * self.detail:
                self._log(f"trait.{self.hero.family}.act", core=False)
        elif beat[0] == "+":
            self._log(f"feel.{self.rng.choice(beat[1:].split('/'))}", core=False, who=self.hero)
        elif beat[0] == "@":
            times = drawn("times")
            others = [times] if beat[1:] in (*times, "night") else weather().values()
            self.tags = self.tags.difference(*others, {"night"}) | {beat[1:]}
        else:
            self._tell_of(beat)

    def _tell_of(self, beat: str) -> None:
        beat, _, letter = beat.partition("@")
        maybe = beat.endswith("?")
        names = [f"{self.plot.name}.{name}" for name in beat.rstrip("?").split("/")]
        fitting = [n for n in names if any(w.fits(self.tags) for w in section(n).wordings)]
        roles = {"spot": self.role(f"spot {letter}")} if letter else {}
        if not maybe or self.rng.random() < 0.6 * self.detail * 1.3:
            self._log(self.rng.choice(fitting or names), core=not maybe, **roles)

    def _log(self, name: str, core: bool, **roles: Entity) -> None:
        self.log.append(Event(name, roles, core, frozenset(self.tags)))

    # Set-up.

    def _set_time(self) -> None:
        asked = self.plot.asks["weather"]
        seasons = [s for s, known in weather().items() if not asked or {*known} & {*asked}]
        self.season = self.rng.choice(seasons)
        found = [each for each in weather()[self.season] if not asked or each in asked]
        self.weather = self.rng.choice(found)
        time = self.rng.choice(self.plot.asks["time"] or drawn("times"))
        self.tags |= {self.season, self.weather, time}

    def _set_mode(self) -> None:
        if self.introduced:
            self.tags.add("human" if self.introduced.human else "fable")
            return
        modes, being = self.plot.asks["modes"], self.given.being()
        likely = 0.4 if being is None else float(being.kind == "animal")
        fable = "human" not in modes or ("fable" in modes and self.rng.random() < likely)
        self.tags.add("fable" if fable else "human")
        if not (fable or being) and "I" in modes and self.rng.random() < 0.15:
            self.tags.add("I")

    def _cast_main(self) -> tuple[Being, Place]:
        fable, asks = "fable" in self.tags, self.plot.asks
        hero = self.introduced
        if hero is None:
            hero = self.casting.hero(self._given_being(), asks["ages"][0])
        tags = (*asks["place"], *(("wild",) if fable and "in" not in asks["place"] else ()))
        place = self.casting.place(tags)
        self.cast |= {"hero": hero, "place": place}
        self.tags |= {hero.family, hero.age, "named" if hero.name else "unnamed"}
        self.tags |= {f"at_{tag}" for tag in place.tags}
        return hero, place

    def _set_roles(self) -> None:
        if self.plot.asks["things"] and isinstance(thing := self.role("thing"), Thing):
            self.tags.add(f"thing_{thing.noun.kind}")
        for name, kind in self.plot.cast.items():
            self.cast[name] = self.casting.special(kind, self.hero)
        for names, text in self.plot.roles.items():
            options = [guarded(option) for option in text.split("; ")]
            chosen = self.rng.choice([option for option in options if option.fits(self.tags)])
            values = chosen.text.split(": ")
            for group, value in zip(names.split(", "), values, strict=True):
                each = group.split("/")
                drawn = self.rng.sample(value.split("/"), len(each)) if len(each) > 1 else [value]
                self.cast.update(zip(each, drawn, strict=True))
        for name, text in self.plot.takes.items():
            pattern, _, kinds = text.partition(": ")
            if noun := self._given_one(kinds.split()):
                self.cast[name] = pattern.format(noun.word)

    def _given_one(self, kinds: list[str]) -> Noun | None:
        return self.given.noun(lambda noun: noun.kind in kinds and noun.number == "one")

    def _given_being(self, water: bool = False) -> str | None:
        kind = "animal" if "fable" in self.tags else "person"
        return self.given.word(lambda n: n.kind == kind and (water or "water" not in n.tags))

    def _given_relative(self) -> str | None:
        relatives = lexicon().cast["relatives"] if self.hero.human else []
        return self.given.word(lambda n: n.word in relatives)

    def _make(self, name: str) -> Entity:
        given, casting = self.given, self.casting
        match name.split()[0]:
            case "spot":
                return self.place.spots.pop() if self.place.spots else "behind the last corner"
            case "both":
                friend = self.role("friend")
                assert isinstance(friend, Being)
                return Group((self.hero, friend))
            case "thing":
                kinds = self.plot.asks["things"] or ("toy", "treasure", "clothes")
                noun = given.noun(lambda n: n.kind in kinds)
                food = noun is not None and noun.kind in ("food", "dish")
                groups = ("food",) if food else ("colour", "thing")
                return casting.thing(noun, given.adjective(*groups), kinds)
            case "elder":
                kind = self._given_being(water=True) or self._given_relative()
                return casting.elder(self.hero, kind)
            case "animal" | "pet":
                ours = {*self.plot.asks["animals"]}
                animal = given.word(lambda n: n.kind == "animal" and bool(n.tags & ours))
                return casting.animal(animal, name == "pet")
        make = casting.friend if name == "friend" else casting.stranger
        return make(self.hero, self._given_being(), given.adjective("trait"))
