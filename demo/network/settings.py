"""The Network tab's links: presets with their sources, one's own figures, the page's address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import gradio as gr

from demo.common.links import LONGEST, query_of, settings_of
from demo.common.methods import VANILLA, label
from demo.common.status import say
from demo.engine import Engine
from demo.network.server import Far
from demo.share import complaint, wrong_target
from moa_core.errors import UserError
from moa_core.link.network import DEFAULT, PRESETS, LinkSettings, link

CUSTOM = "custom"
STREAMING = "API streaming: no drafter"
FIELDS = {  # of a custom link: its key, a unit's size, lowest, highest, step, label
    "rtt": ("rtt_ms", 1, 0, 1000, 1, "Round trip (ms)"),
    "jitter": ("jitter_ms", 1, 0, 300, 1, "Jitter of the round trip (ms)"),
    "down": ("down_mbps", 1, 0.01, 1000, 0.01, "From the server (Mbit/s)"),
    "up": ("up_mbps", 1, 0.01, 1000, 0.01, "To the server (Mbit/s)"),
    "loss": ("loss", 0.01, 0, 20, 0.1, "Packets lost (%)"),
}
Values = Mapping[str, float]


def choices() -> list[tuple[str, str]]:
    """Presets by what they are called, and the custom link."""
    named = [(called(one), name) for name, one in PRESETS.items()]
    return [*named, ("Your own figures", CUSTOM)]


def called(one: LinkSettings) -> str:
    """What a preset is called in its source."""
    return one.source.partition(":")[0]


def starting(name: str = DEFAULT) -> dict[str, float]:
    """What the sliders show for a preset: as near as they go."""
    return sliders(PRESETS[name])


def sliders(one: LinkSettings) -> dict[str, float]:
    """What the sliders show for a link: as near as they go."""
    return {
        key: round(min(max(getattr(one, name) / unit, low), high), 3)
        for key, (name, unit, low, high, _, _) in FIELDS.items()
    }


def chosen(name: str, values: Values) -> LinkSettings:
    """The link that is set: a preset, or one's own figures. UserError for those of no link."""
    if name != CUSTOM:
        return link(name)
    own = {field: values[key] * unit for key, (field, unit, *_) in FIELDS.items()}
    return LinkSettings(**own, name=CUSTOM)


def spec(name: str, values: Values) -> str:
    """The link as an address carries it."""
    return name if name != CUSTOM else chosen(name, values).spec


def about_html(one: LinkSettings) -> str:
    """A link's figures and where they come from."""
    figures = str(one).removeprefix(f"{one.name}: ")
    title = "Your own figures" if one.name == CUSTOM else called(one)
    source = one.source.removeprefix(f"{title}: ")
    source = source[:1].upper() + source[1:]
    if one.name == CUSTOM:
        source = "Loss is a stall here: under a stream a lost packet is sent again."
    return f"<p><b>{escape(title)}</b>: {escape(figures)}. {escape(source)}</p>"


def follow(name: str, *values: float) -> tuple[Any, ...]:
    """A link was chosen: its figures in words, the sliders if they are wanted, and their values."""
    if name == CUSTOM:
        own = about_of(name, *values)
        return own, gr.update(visible=True), *(gr.skip() for _ in FIELDS)
    one = link(name)
    return about_html(one), gr.update(visible=False), *sliders(one).values()


def about_of(name: str, *values: float) -> str:
    """The same for one's own figures; what is wrong with them in a sentence."""
    try:
        return about_html(chosen(name, dict(zip(FIELDS, values, strict=True))))
    except UserError as error:
        return f"<p>{escape(str(error))}</p>"


def methods_of(far: Far, target: str = "") -> list[tuple[str, str]]:
    """Methods to choose from, by what they are called here."""
    return [(STREAMING if name == VANILLA else label(name), name) for name in far.methods(target)]


def first_method(far: Far, engine: Engine, target: str = "") -> str:
    """The method to begin with."""
    there, usual = far.methods(target), engine.default(target)
    return usual if usual in there else there[0]


def from_address(
    tab: str, far: Far, engine: Engine, names: Sequence[str], request: gr.Request
) -> tuple[Any, ...]:
    """(status, about, sliders' box, *settings) from an address that names this tab; what cannot be
    used is named. names: of the settings, the sliders among them."""
    skipped = gr.skip()
    if request.query_params.get("tab") != tab:
        return skipped, skipped, skipped, *(skipped for _ in names)
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
    values = (given.get(name, skipped) for name in names)
    return complaint(wrong), about, box, *values


def parsed(text: str) -> tuple[str, dict[str, float]]:
    """A link of an address: its name here and the sliders' values. UserError if it is none, or is
    more than the sliders can say."""
    one = link(text)
    if one.name in PRESETS:
        return one.name, sliders(one)
    values = sliders(one)
    if chosen(CUSTOM, values).spec != one.spec:
        kept = ", ".join(
            f"{key} {low:g} to {high:g}" for key, (_, _, low, high, _, _) in FIELDS.items()
        )
        raise UserError(f"a link’s own figures are here {kept} (loss in %), not {text!r}")
    return CUSTOM, values


def address(tab: str, names: Sequence[str], target: str, *values: Any) -> tuple[Any, Any]:
    """The settings as a query string: (status, query)."""
    given = dict(zip(names, values, strict=True)) | {"target": target}
    if len(given["prompt"]) > LONGEST:
        return say(f"A link carries at most {LONGEST:,} characters of prompt.", "error"), ""
    try:
        given["link"] = spec(given["link"], given)
    except UserError as error:
        return say(str(error), "error"), ""
    wanted = {name: given[name] for name in ("target", "method", "link", "prompt", "tokens")}
    return say("The address is ready to copy.", "done"), f"?tab={tab}&{query_of(wanted)}"
