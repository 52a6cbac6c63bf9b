"""Turn the log of a world into text."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from moa_core.train.bundle.world.entities import Entity, Thing, drawn, favoured, lexicon
from moa_core.train.bundle.world.grammar import Pattern, Slot, Wording, expand, section, sections
from moa_core.train.bundle.world.references import References
from moa_core.train.bundle.world.world import Event, World

_ARTICLE = re.compile(r"\b([Aa]) (?=((?:[aeiouAEIOU]|ho(?:nest|no|ur))\w*))")
_SENTENCE_START = re.compile(r'((?:^|[.!?]\s+|\."\s+|\n)"?)([a-z])')
_TAG = re.compile(r'([!?,]" )(said|asked|cried|called|answered|whispered|shouted|thought) I\b')
_I_AND = re.compile(r"\bI and ((?:my (?:best )?[a-z]+ )?[A-Z]\w+)")
_LEAD_ENDS = Event("", {}, False, frozenset())
_TIMES_OF_DAY = ("morning", "afternoon", "evening", "night", "day")


class Teller:
    """One telling of a world's story; another telling has other wordings.

    plain  name everything in full, as a question does
    lead   characters of the opening, in which all words that must be in the story are
    """

    def __init__(
        self, world: World, rng: random.Random, brief: bool = False, plain: bool = False
    ) -> None:
        self.world, self.rng, self.brief = world, rng, brief
        self.refs = References(rng, world.hero, plain)
        self.tags = frozenset(world.tags)
        self.told: list[Event] = []
        self.lead = 0
        self._roles: dict[str, Entity] = {}
        self._used: set[Wording] = set()
        if world.introduced:
            self.refs.prime(world.introduced)

    def tell(self, must: list[str]) -> str:
        """The story, with the words `must` woven in."""
        paragraphs: list[list[str]] = [[]]
        for event in self._events(must):
            if event is None:
                if paragraphs[-1] and not self.brief:
                    paragraphs.append([])
                    self.refs.next_wording(new_paragraph=True)
                continue
            if event is _LEAD_ENDS:
                self.lead = sum(len(line) + 1 for lines in paragraphs for line in lines)
            elif wording := self.choose(event):
                self.told.append(event)
                paragraphs[-1].append(self.render(wording.pattern, event))
                self.refs.next_wording()
        return polish("\n\n".join(" ".join(lines) for lines in paragraphs if lines))

    def choose(self, event: Event) -> Wording | None:
        """An unused wording that fits the event's tags."""
        fits = [
            wording for wording in section(event.name).wordings
            if wording not in self._used and wording.fits(event.tags)
        ]  # fmt: skip
        if not fits:
            return None
        by = str(event.roles.get("w", self.world.plot.name))
        wording = favoured(self.rng, fits, f"{by} {event.name}")
        if self.brief and event.name.startswith(self.world.plot.name):
            wording = min(wording, *self.rng.choices(fits, k=2), key=lambda each: len(each.text))
        self._used.add(wording)
        return wording

    def render(self, pattern: Pattern, event: Event) -> str:
        self._roles, self.tags = event.roles, event.tags
        out: list[str] = []
        expand(pattern, self.rng, self._fill, out)
        return "".join(out).strip()

    def _events(self, must: list[str]) -> Iterator[Event | None]:
        world = self.world
        start = frozenset(world.log[0].tags if world.log else world.tags)
        yield from self._opening(start)
        # Early, and in the order asked for: a small model forgets which words are left to use.
        yield from [Event(*frame(word, self.rng), True, start) for word in must]
        yield _LEAD_ENDS
        if self.rng.random() < 0.5 and not self.brief:
            yield None
        for event in world.log:
            if not event.name:
                yield None
                if not self.brief:
                    yield from self._pause()
            elif event.core or not self.brief:
                yield event
        yield from self._ending(frozenset(world.tags))

    def _opening(self, tags: frozenset[str]) -> Iterator[Event]:
        world, hook = self.world, f"{self.world.plot.name}.hook"
        hooked = hook in sections() and self.rng.random() < 0.45
        if not world.introduced:
            yield Event(hook if hooked else "open", {}, True, tags)
        family = world.hero.family
        if family and not self.brief and self.rng.random() < 0.3 * world.detail:
            yield Event(f"trait.{family}.show", {}, True, tags)
        if not self.brief and self.rng.random() < 0.3 * world.detail:
            yield self._sense(set(tags))

    def _ending(self, tags: frozenset[str]) -> Iterator[Event]:
        own = f"{self.world.plot.name}.end"
        share = self.rng.random()
        if own in sections() and share < 0.9:
            yield Event(own, {}, True, tags)
        if own not in sections() or share > 0.84:
            yield Event("end", {}, True, tags)

    def _pause(self) -> Iterator[Event]:
        """Between two scenes: something to see, or a small event."""
        world, share = self.world, self.rng.random()
        if share < 0.2 * world.detail:
            yield self._sense(world.tags)
        elif share > 1.2 - 0.4 * world.detail:
            yield Event("interlude", {}, False, frozenset(world.tags))

    def _sense(self, tags: set[str]) -> Event:
        place, weather = self.world.place, self.world.weather
        names = [f"sense.{place.noun.word}", *(f"sense.{tag}" for tag in sorted(place.tags))]
        if "out" in place.tags:
            names += [f"sense.{weather}"] * 2
        known = [name for name in names if name in sections()]
        return Event(self.rng.choice(known or ["sense.out"]), {}, False, frozenset(tags))

    def _fill(self, slot: Slot, out: list[str]) -> str:
        before = "".join(out[-3:])
        text = self._slot(slot, before)
        return text[:1].upper() + text[1:] if slot.capital else text

    def _slot(self, slot: Slot, before: str) -> str:
        role = slot.role
        if role.startswith("~"):
            inner: list[str] = []
            fits = [each for each in section(role).wordings if each.fits(self.tags)]
            expand(self.rng.choice(fits).pattern, self.rng, self._fill, inner)
            return "".join(inner)
        if role in drawn("he", "pronouns"):
            return self.refs.text(self.world.hero, role, before)
        if role in drawn("they", "pronouns"):
            return self.refs.text(self.world.role("both"), role, before)
        if role == "when":
            return self._when()
        entity = self._roles.get(role) or self.world.role(role)
        return self.refs.text(entity, slot.form, before)

    def _when(self) -> str:
        world = self.world
        time = next((each for each in _TIMES_OF_DAY if each in self.tags), "day")
        forms = (f"{world.weather} {time}", f"{time} in {world.season}", f"{world.season} {time}")
        return f"one {self.rng.choices((*forms, time), (2, 1, 1, 1))[0]}"


def frame(word: str, rng: random.Random) -> tuple[str, dict[str, Entity]]:
    """Name and roles of an event that uses a word which has no role in the story."""
    known = lexicon()
    if word in known.nouns:
        noun = known.nouns[word]
        kind = "food" if noun.kind == "dish" else noun.kind
        names = [word, *(f"{kind} {tag}" for tag in sorted(noun.tags)), kind]
        name = next(name for name in names if f"weave.{name}" in sections())
        return f"weave.{name}", {"w": word, "x": Thing(noun)}
    if word in known.adjectives:
        group = known.adjectives[word].group
        more = "_adjective" if group in ("weather", "food", "place") else ""
        return f"weave.{group}{more}", {"w": word}
    if word in known.verbs:
        habits, acts = known.verbs[word]
        return "weave.verb", {"w": word, "use": rng.choice(habits), "act": rng.choice(acts)}
    return "weave.unknown", {"w": word}


def polish(text: str) -> str:
    """The text with capitals at sentence starts, right articles and single spaces."""
    text = re.sub(r" +", " ", text)
    text = re.sub(r" ([,.!?;])", r"\1", text)
    text = text.replace('".', '."').replace("..", ".")
    text = _TAG.sub(r"\1I \2", text)
    text = _I_AND.sub(r"\1 and I", text)
    text = _SENTENCE_START.sub(lambda match: match[1] + match[2].upper(), text)
    return articles(text)


def articles(text: str) -> str:
    """The text with "an" where it belongs."""

    def article(match: re.Match[str]) -> str:
        word = match[2].lower()
        plain = word in lexicon().names["article"] or word.startswith(("uni", "use", "eu"))
        return f"{match[1]} " if plain else f"{match[1]}n "

    return _ARTICLE.sub(article, text)
