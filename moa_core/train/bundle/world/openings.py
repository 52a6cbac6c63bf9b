"""Who an opening from elsewhere is about, so that the small world can go on with it."""

from __future__ import annotations

import random
import re

from moa_core.train.bundle.world.entities import Being
from moa_core.train.bundle.world.lexicon import lexicon

_CALLED = re.compile(r"\b(?:named|called) ([A-Z][a-z]+)")
_NAMED = {"he": "he", "animal_he": "he", "she": "she", "animal_she": "she"}  # lists of names
_PRONOUN = re.compile(r"\b(he|his|him|she|her)\b", re.IGNORECASE)


def hero_of(opening: str, rng: random.Random) -> Being | None:
    """The being that an opening is about; None where that is not clear."""
    names, nouns = lexicon().names, lexicon().nouns
    words = re.findall(r"[A-Za-z]+", opening)
    called = _CALLED.search(opening)
    kinds = [word for word in words if word in nouns and nouns[word].kind in ("animal", "person")]
    known = [word for word in words if any(word in names[key] for key in _NAMED)]
    name = called[1] if called else known[0] if known else ""
    if not (name or kinds):
        return None
    of_name = f"{re.escape(name)} the (\\w+)|\\b(\\w+) (?:named|called) {re.escape(name)}"
    found = re.search(of_name, opening) if name else None
    kind = next((one for one in (found.groups() if found else kinds[:1]) if one in nouns), "")
    pron = _pronoun(opening, name, kind)
    if not pron:
        return None
    human = not kind or nouns[kind].kind == "person"
    kind = kind or ("boy" if pron == "he" else "girl")
    trait = rng.choice(lexicon().by_group["trait"]).word
    being = Being(kind, pron, trait, name, name or f"the {kind}", human)
    being.age = "child" if kind in ("boy", "girl", "child") or not human else "grown"
    return being


def _pronoun(opening: str, name: str, kind: str) -> str:
    """As the opening says, or as the name or the kind does; empty where nothing does."""
    if found := _PRONOUN.search(opening):
        return "he" if found[1].lower() in ("he", "his", "him") else "she"
    lists = lexicon()
    by_name = [pron for key, pron in _NAMED.items() if name in lists.names[key]]
    by_kind = [pron for pron, key in (("he", "male"), ("she", "female")) if kind in lists.cast[key]]
    return next(iter(by_name + by_kind), "")


def thing_of(opening: str) -> tuple[str, ...]:
    """The last thing or place that an opening names, for the story to use."""
    nouns = lexicon().nouns
    named = [
        word for word in re.findall(r"[a-z]+", opening)
        if word in nouns and nouns[word].kind not in ("animal", "person")
    ]  # fmt: skip
    return tuple(named[-1:])
