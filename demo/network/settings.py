"""The Network tab's settings: links with their sources, one's own figures, the page's address."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from typing import Any

import gradio as gr

from demo.common.methods import VANILLA, label
from demo.common.status import say
from demo.engine import Engine, Request
from demo.network.server import Far
from demo.share import address_of, complaint, settings_of, wrong_target
from moa_core.errors import UserError
from moa_core.link.emulator import DEFAULT, PRESETS, LinkSettings, link

CUSTOM = "custom"
STREAMING = "API streaming: no drafter"
FIGURES = {  # of a custom link: its key, a unit's size, lowest, highest, step, label
    "rtt": ("rtt_ms", 1, 0, 1000, 1, "Round trip (ms)"),
    "jitter": ("jitter_ms", 1, 0, 300, 1, "Jitter of the round trip (ms)"),
    "down": ("down_mbps", 1, 0.01, 1000, 0.01, "From the server (Mbit/s)"),
    "up": ("up_mbps", 1, 0.01, 1000, 0.01, "To the server (Mbit/s)"),
    "loss": ("loss", 0.01, 0, 20, 0.1, "Packets lost (%)"),
}


@dataclass(frozen=True)
class Settings:
    """The values of the controls, in the order in which events send them.

    link        a preset's name or CUSTOM, for the figures from `rtt` to `loss`
    numbers     how numbers travel: bf16, int8 or f32
    back        what becomes of text written offline: heal or keep
    cut_after   tokens after which the link is cut for `cut_for` seconds; 0: by hand
    alone_rate  tokens per second that the drafter writes alone at most; 0: as fast as it can
    """

    target: str
    prompt: str
    method: str
    link: str
    rtt: float
    jitter: float
    down: float
    up: float
    loss: float
    numbers: str = "bf16"
    back: str = "heal"
    tokens: int = 160
    cut_after: int = 0
    cut_for: float = 5.0
    alone_rate: float = 15.0

    @property
    def request(self) -> Request:
        return Request(self.prompt, self.method, int(self.tokens), target=self.target)

    @property
    def emulated(self) -> LinkSettings:
        """The link that is set. UserError for figures of no link."""
        return chosen(self.link, {name: getattr(self, name) for name in FIGURES})


NAMES = [one.name for one in fields(Settings)]
LINKED = NAMES[1:]  # what an address may set here


def choices() -> list[tuple[str, str]]:
    """Presets by what they are called, and the custom link."""
    return [*((called(one), name) for name, one in PRESETS.items()), ("Your own figures", CUSTOM)]


def called(one: LinkSettings) -> str:
    """What a preset is called in its source."""
    return one.source.partition(":")[0]


def sliders(one: LinkSettings = PRESETS[DEFAULT]) -> dict[str, float]:
    """What the sliders show for a link: as near as they go."""
    return {
        key: round(min(max(getattr(one, name) / unit, low), high), 3)
        for key, (name, unit, low, high, _, _) in FIGURES.items()
    }


def chosen(name: str, values: dict[str, float]) -> LinkSettings:
    """A preset, or one's own figures. UserError for those of no link."""
    if name != CUSTOM:
        return link(name)
    own = {field: values[key] * unit for key, (field, unit, *_) in FIGURES.items()}
    return LinkSettings(**own, name=CUSTOM)


def about_html(one: LinkSettings) -> str:
    """A link's figures and where they come from."""
    figures = str(one).removeprefix(f"{one.name}: ")
    title, source = called(one), one.source
    if one.name == CUSTOM:
        title, source = "Your own figures", "A lost packet is sent again, so loss shows as a stall."
    source = source.removeprefix(f"{title}: ")
    source = source[:1].upper() + source[1:]
    return f"<p><b>{escape(title)}</b>: {escape(figures)}. {escape(source)}</p>"


def follow(name: str, *values: float) -> tuple[Any, ...]:
    """A link was chosen: its figures in words, the sliders if they are wanted, and their values."""
    if name == CUSTOM:
        own = about_of(name, *values)
        return own, gr.update(visible=True), *(gr.skip() for _ in FIGURES)
    one = link(name)
    return about_html(one), gr.update(visible=False), *sliders(one).values()


def about_of(name: str, *values: float) -> str:
    """The same for one's own figures; what is wrong with them in a sentence."""
    try:
        return about_html(chosen(name, dict(zip(FIGURES, values, strict=True))))
    except UserError as error:
        return f"<p>{escape(str(error))}</p>"


def methods_of(far: Far, engine: Engine, target: str = "") -> dict[str, Any]:
    """Methods to choose from, by what they are called here, and the one to begin with."""
    there, usual = far.methods(target), engine.default(target)
    named = [(STREAMING if name == VANILLA else label(name), name) for name in there]
    return {"choices": named, "value": usual if usual in there else there[0]}


def from_address(tab: str, far: Far, engine: Engine, request: gr.Request) -> tuple[Any, ...]:
    """(status, about, sliders' box, *LINKED) from an address that names this tab; what cannot be
    used is named."""
    skipped = gr.skip()
    if request.query_params.get("tab") != tab:
        return skipped, skipped, skipped, *(skipped for _ in LINKED)
    given, wrong = settings_of(request.query_params)
    wrong = [each for each in wrong if each.startswith(("tokens ", "there is no setting "))]
    wrong += wrong_target(engine, given)
    method = given.pop("method", None)
    if method in far.methods():
        given["method"] = method
    elif method is not None:
        wrong.append(f"method must be one of {', '.join(far.methods())}")
    about, box = skipped, skipped
    if "link" in given:
        try:
            name, values = parsed(given.pop("link"))
            given |= {"link": name, **values}
            about = about_html(chosen(name, values))
            box = gr.update(visible=name == CUSTOM)
        except UserError as error:
            wrong.append(str(error))
    return complaint(wrong), about, box, *(given.get(name, skipped) for name in LINKED)


def parsed(text: str) -> tuple[str, dict[str, float]]:
    """A link of an address: its name here and the sliders' values. UserError if it is none, or is
    more than the sliders can say."""
    one = link(text)
    values = sliders(one)
    if one.name in PRESETS:
        return one.name, values
    if chosen(CUSTOM, values).spec != one.spec:
        kept = ", ".join(
            f"{key} {low:g} to {high:g}" for key, (_, _, low, high, _, _) in FIGURES.items()
        )
        raise UserError(f"a link’s own figures are here {kept} (loss in %), not {text!r}")
    return CUSTOM, values


def address(tab: str, *values: Any) -> tuple[Any, str]:
    """The settings as a query string: (status, query)."""
    given = Settings(*values)
    try:
        spec = given.link if given.link != CUSTOM else given.emulated.spec
    except UserError as error:
        return say(str(error), "error"), ""
    wanted = {name: getattr(given, name) for name in ("target", "method", "prompt", "tokens")}
    return address_of(tab, wanted | {"link": spec})
