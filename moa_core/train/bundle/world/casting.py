"""Beings, things and places of a story, made of given or drawn words."""

from __future__ import annotations

import random
from functools import cache

from moa_core.train.bundle.world.entities import (
    Being,
    Noun,
    Place,
    Thing,
    drawn,
    favoured,
    lexicon,
    places,
)


class Casting:
    """Makes the entities of one story. No name and no kind of animal comes twice.

    plot  name of the plot, which has its favourites
    """

    def __init__(self, rng: random.Random, plot: str, fable: bool, first_person: bool) -> None:
        self.rng, self._plot, self.fable, self.first_person = rng, plot, fable, first_person
        self._names: set[str] = set()
        self._kinds: set[str] = set()

    def hero(self, kind: str | None, ages: str) -> Being:
        trait = self._trait()
        if self.fable:
            part = "small" if ages == "small" else "heroes"
            return self._animal(kind or self._drawn(part), trait)
        being = self._person(kind, trait, ages)
        if self.first_person:
            being.pron = "I"
        return being

    def friend(self, hero: Being, kind: str | None, trait: str | None) -> Being:
        """A being of the hero's kind and age, mostly with the other pronoun."""
        pron, trait = self._other_pron(hero), trait or self._trait()
        if self.fable:
            return self._animal(kind or self._new_kind("heroes"), trait, pron)
        if kind:
            return self._person(kind, trait, "child", pron)
        being = self._named(self._unused(pron), pron, "boy" if pron == "he" else "girl", trait)
        relation = self.rng.choice(
            [*drawn(f"{pron}_relatives"), "friend", "friend", "neighbor", ""]
        )
        if relation:
            best = "best " if relation == "friend" and self.rng.random() < 0.4 else ""
            being.first = f"{{his}} {best}{relation} {being.name}"
        return being

    def elder(self, hero: Being, kind: str | None) -> Being:
        """A relative, a neighbour or a wise animal."""
        pron = self._either()
        if self.fable:
            kind = kind or self._new_kind("elders")
            human = kind in lexicon().cast["workers"]
            being = self._unnamed(kind, self._pron_of(kind, pron), "old", human)
            being.age = "old"
            return being
        if kind in lexicon().cast["relatives"]:
            return Being(kind, self._pron_of(kind, pron), "old", "", f"{{his}} {kind}", age="grown")
        if kind or hero.age != "child" or self.rng.random() < 0.35:
            kind = kind or self._drawn("workers")
            return self._worker(kind, self._pron_of(kind, pron))
        return self._relative(pron, self.rng.choice(drawn(f"{pron}_family")))

    def special(self, kind: str, hero: Being) -> Being:
        """A being that a plot asks for: a granny, a worker, a big animal or a stranger."""
        if kind == "granny":
            return self._relative(*self.rng.choice(drawn("old")))
        if kind == "worker":
            work = self._drawn("workers")
            return self._worker(work, self._pron_of(work, self._either()))
        if kind == "big":
            pron = self._either()
            return self._unnamed(self._new_kind("big"), pron, "big", human=False)
        return self.stranger(hero, None, None)

    def stranger(self, hero: Being, kind: str | None, trait: str | None) -> Being:
        pron, trait = self._other_pron(hero), trait or self._trait()
        if self.fable:
            return self._unnamed(kind or self._new_kind("heroes"), pron, trait, human=False)
        kind = kind or ("boy" if pron == "he" else "girl")
        return self._unnamed(kind, self._pron_of(kind, pron), trait)

    def animal(self, kind: str | None, pet: bool) -> Being:
        """An animal that does not speak."""
        kind = kind or self._new_kind("pets")
        if pet:
            name, pron = self._unused("pet"), self._either()
            return Being(kind, pron, "", name, f"{{his}} {kind} {name}", False, (f"the {kind}",))
        looks = self._drawn("animals")
        first = f"a {kind}" if kind in ("puppy", "kitten") else f"a {looks} {kind}"
        return Being(kind, "it", "", "", first, False)

    def thing(self, noun: Noun | None, adjective: str | None, kinds: tuple[str, ...]) -> Thing:
        words = lexicon()
        noun = noun or self.rng.choice(words.by_kind[self.rng.choice(kinds)])
        group = self.rng.choice(drawn(f"{noun.kind}_looks") or ["thing"])
        if adjective:
            found = adjective
        elif self.rng.random() < 0.15:
            found = ""
        elif noun.kind in ("food", "dish"):
            found = self._drawn("fresh")
        elif group == "thing":
            found = self._drawn("dress" if noun.kind == "clothes" else "looks")
        else:
            found = self.rng.choice(words.by_group[group]).word
        return Thing(noun, found.replace("_", " "))

    def place(self, tags: tuple[str, ...]) -> Place:
        """A place with all the tags."""
        fitting = [word for word in places() if word != "more" and is_like(word, tags)]
        noun = lexicon().nouns[favoured(self.rng, fitting, self._plot)]
        inside, found, spots = _known(noun.word)
        hidden = list(spots or drawn("spots_in" if "in" in found else "spots_out"))
        self.rng.shuffle(hidden)
        return Place(noun, inside, found, hidden)

    def _trait(self) -> str:
        return favoured(self.rng, lexicon().by_group["trait"], self._plot).word

    def _either(self) -> str:
        return self.rng.choice(("he", "she"))

    def _other_pron(self, hero: Being) -> str:
        own = "he" if hero.pron == "I" and hero.noun == "boy" else hero.pron
        other = "she" if own == "he" else "he"
        return other if self.rng.random() < 0.85 else self._either()

    def _pron_of(self, kind: str, otherwise: str) -> str:
        cast = lexicon().cast
        return "he" if kind in cast["male"] else "she" if kind in cast["female"] else otherwise

    def _drawn(self, part: str) -> str:
        return favoured(self.rng, lexicon().cast[part], self._plot)

    def _new_kind(self, part: str) -> str:
        kinds = [kind for kind in lexicon().cast[part] if kind not in self._kinds]
        kind = favoured(self.rng, kinds, self._plot)
        self._kinds.add(kind)
        return kind

    def _unused(self, key: str) -> str:
        names = [name for name in lexicon().names[key] if name not in self._names]
        name = favoured(self.rng, names, self._plot)
        self._names.add(name)
        return name

    def _relative(self, pron: str, name: str) -> Being:
        if "{name}" in name:
            name = name.format(name=self._unused(pron))
        being = self._named(name, pron, "man" if pron == "he" else "woman", self._trait())
        being.age = "old" if name.startswith("Gr") else "grown"
        return being

    def _person(self, kind: str | None, trait: str, ages: str, pron: str | None = None) -> Being:
        pron = pron or self._either()
        if kind is None and (ages == "child" or self.rng.random() < 0.7):
            kind = "boy" if pron == "he" else "girl"
        kind = kind or self._drawn("jobs")
        pron = self._pron_of(kind, pron)
        being = self._named(self._unused(pron), pron, kind, trait)
        being.age = "child" if kind in ("boy", "girl", "child") else "grown"
        if kind not in ("boy", "girl"):
            being.first = f"a {kind} {self.rng.choice(('named', 'called'))} {being.name}"
        return being

    def _named(self, name: str, pron: str, kind: str, trait: str) -> Being:
        plain = kind in self._kinds or kind in ("man", "woman")
        self._kinds.add(kind)
        return Being(kind, pron, trait, name, name, others=() if plain else (f"the {kind}",))

    def _animal(self, kind: str, trait: str, pron: str | None = None) -> Being:
        pron = pron or self._either()
        self._kinds.add(kind)
        name = self._unused(f"animal_{pron}")
        if name.lower() == kind or self.rng.random() < 0.25:
            return self._unnamed(kind, pron, trait, human=False)
        first = self.rng.choice((f"{name} the {kind}", f"a {kind} named {name}"))
        return Being(kind, pron, trait, name, first, False, (f"the {kind}",))

    def _worker(self, kind: str, pron: str) -> Being:
        if kind == "neighbor" or self.rng.random() < 0.6:
            name = f"{'Mr.' if pron == 'he' else 'Mrs.'} {self._unused('surname')}"
            being = self._named(name, pron, kind, self._trait())
            being.first = f"{{his}} neighbor {name}" if kind == "neighbor" else f"{name} the {kind}"
            being.others = ()
        else:
            being = self._unnamed(kind, pron, self.rng.choice(("old", "old", "friendly", "kind")))
        being.age = "grown"
        return being

    def _unnamed(self, kind: str, pron: str, adjective: str, human: bool = True) -> Being:
        return Being(kind, pron, adjective, "", f"a {adjective} {kind}".replace("  ", " "), human)


def is_like(word: str, tags: tuple[str, ...]) -> bool:
    return _known(word)[1].issuperset(tags)


@cache
def _known(word: str) -> tuple[str, frozenset[str], tuple[str, ...]]:
    known = places().get(word)
    if known and word != "more":
        return known["at"], frozenset(known["tags"].split()), tuple(known["spots"])
    for tags, groups in places()["more"].items():
        for inside, words in groups.items():
            if word in words.replace("_", " ").split() or word.replace(" ", "_") in words.split():
                return inside, frozenset(tags.split()), ()
    return "in the", frozenset({"out"}), ()
