"""How a telling refers to things: by pronoun where that is clear, else by name."""

from __future__ import annotations

import random
import re

from moa_core.train.bundle.world.entities import Being, Entity, Group, Place, Thing, drawn

_AFTER_SPEECH = re.compile(r'["] \w+ $')
_CASES = {"": 0, "o": 1, "s": 2}
_STRICT = {  # forms that are always a pronoun, and their case
    word: case
    for pron in ("he", "she", "it", "they")
    for case, word in reversed([*enumerate(drawn(pron, "pronouns"))])
}


class References:
    """Remembers what the reader knows. If `plain`, names everything in full."""

    storyteller = "the storyteller"  # plain for a hero who says "I"

    def __init__(self, rng: random.Random, hero: Being, plain: bool = False) -> None:
        self.rng = rng
        self.hero = hero
        self.plain = plain
        self.known: set[Entity] = set()
        self._last: list[Entity] = []
        self._now: list[Entity] = []

    def next_wording(self, new_paragraph: bool = False) -> None:
        """End a wording. A new paragraph starts with names."""
        self._last = [] if new_paragraph else self._now or self._last
        self._now = []

    def prime(self, *entities: Entity) -> None:
        """Treat the entities as known and just mentioned."""
        self.known.update(entities)
        self._last = list(entities)

    def text(self, entity: Entity, form: str, before: str) -> str:
        """An entity in a form, to follow the text `before`."""
        if isinstance(entity, str):
            bare = entity.removeprefix("a ").removeprefix("an ")
            return {"n": bare, "the": f"the {bare}"}.get(form, entity)
        if isinstance(entity, Place):
            return self._place(entity, form)
        if isinstance(entity, Thing):
            return self._thing(entity, form)
        if form in _STRICT:
            return self._strict(entity, _STRICT[form])
        assert isinstance(entity, Being)  # a group is only ever "they"
        if form in _CASES:
            return self._case(entity, _CASES[form], before)
        return self._being(entity, form)

    def _strict(self, entity: Being | Group, case: int) -> str:
        if self.plain and entity.pron in ("I", "we"):
            return _pronoun("he" if entity.pron == "I" else "they", case)
        self._now.append(entity)
        return _pronoun(entity.pron, case)

    def _case(self, entity: Being, case: int, before: str) -> str:
        pronoun = _pronoun(entity.pron, case)
        if entity.pron == "I" and not self.plain:
            self._mention(entity)
            return pronoun
        likely = 0.9 if entity in self._now else 0.75
        if not self.plain and self._clear(entity) and not _AFTER_SPEECH.search(before):
            self._mention(entity)
            if self.rng.random() < likely:
                return pronoun
        return self._owned(entity) if case == 2 else self._name(entity)

    def _clear(self, entity: Being) -> bool:
        recent = self._last + self._now
        return {other for other in recent if _pron(other) == entity.pron} == {entity}

    def _owned(self, entity: Being) -> str:
        name = self._later(entity) if self.plain or entity in self.known else entity.later
        self._mention(entity)
        return f"{name}'s"

    def _name(self, entity: Being) -> str:
        if entity.pron == "I" and not self.plain:
            self._mention(entity)
            return "I"
        new = entity not in self.known and not self.plain
        owner = self._case(self.hero, 2, "") if new and "{his}" in entity.first else ""
        self._mention(entity)
        return entity.first.replace("{his}", owner) if new else self._later(entity)

    def _later(self, being: Being) -> str:
        if self.plain and being.pron == "I":
            return self.storyteller
        alone = not any(_like(each, being) for each in self.known)
        if being.others and alone and not self.plain and self.rng.random() < 0.15:
            return self.rng.choice(being.others)
        return being.later

    def _being(self, being: Being, form: str) -> str:
        if form in being.body:
            return being.body[form]
        match form:
            case "call":
                return being.name or being.noun.capitalize()
            case "kind":
                return being.noun
            case "adj":
                return being.adjective
            case "n":
                return self._name(being)
        self._mention(being)
        if form == "name":
            return self._later(being) if self.plain else being.name or being.later
        return f"{form} {being.adjective} {being.noun}".replace("  ", " ")

    def _thing(self, thing: Thing, form: str) -> str:
        if form in ("n", "an"):
            self._mention(thing)
            return thing.described if form == "an" else thing.noun.word
        if form in _STRICT:
            return _pronoun(thing.pron, _STRICT[form])
        if form in ("was", "is"):
            return {"was": "were", "is": "are"}[form] if thing.pron == "they" else form
        if form == "adj":
            return thing.adjective
        if form == "a" or (form == "" and thing not in self.known and not self.plain):
            self._mention(thing)
            article = "a" if thing.noun.number == "one" else "some"  # "an" comes later
            return f"{article} {thing.described}"
        more = thing.adjective and not self.plain and self.rng.random() < 0.15
        self._mention(thing)
        return f"the {thing.described if more else thing.noun.word}"

    def _place(self, place: Place, form: str) -> str:
        self._mention(place)
        word = place.noun.word
        if form == "was":
            return "were" if place.noun.number == "many" else "was"
        return {"at": place.at, "n": word}.get(form, f"the {word}")

    def _mention(self, entity: Entity) -> None:
        self.known.add(entity)
        self._now.append(entity)


def _pronoun(pron: str, case: int) -> str:
    return str(drawn(pron, "pronouns")[case])


def _pron(entity: Entity) -> str:
    return "" if isinstance(entity, str) else entity.pron


def _like(entity: Entity, being: Being) -> bool:
    return isinstance(entity, Being) and entity is not being and entity.noun == being.noun
