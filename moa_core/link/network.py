"""What a network between two machines is like: settings, presets from measurements, a parser."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from moa_core.errors import UserError


@dataclass(frozen=True)
class LinkSettings:
    """A link, as a client sees it. Figures that cannot be a link's raise UserError.

    rtt_ms: median round trip of a small message, half of it each way.
    jitter_ms: standard deviation of the round trip (normal draws; none takes less than no time).
    down_mbps, up_mbps: 10^6 bits per second to and from the client.
    loss: fraction of packets lost, each way. 1: nothing passes, as with no network at all.
    name, source: what to call it; where its figures come from, in a sentence.
    """

    rtt_ms: float = 0.0
    jitter_ms: float = 0.0
    down_mbps: float = 1000.0
    up_mbps: float = 1000.0
    loss: float = 0.0
    name: str = "custom"
    source: str = "Figures of one's own choice."

    def __post_init__(self) -> None:
        for key, (field, low, high) in _FIELDS.items():
            _check_number(key, getattr(self, field), low, high)

    @property
    def offline(self) -> bool:
        """Whether nothing passes."""
        return self.loss >= 1

    @property
    def spec(self) -> str:
        """The settings as `link` reads them; name and source are not part of it."""
        if self.offline:
            return "loss=1"
        default = LinkSettings()
        parts = []
        for key, (field, _, _) in _FIELDS.items():
            value = getattr(self, field)
            if key in ("rtt", "down", "up") or value != getattr(default, field):
                parts.append(f"{key}={value:.15g}")
        return ",".join(parts)

    def __str__(self) -> str:
        """The settings in words, for a person."""
        if self.offline:
            return f"{self.name}: nothing passes"
        text = f"{self.name}: round trip {self.rtt_ms:g} ms, ± {self.jitter_ms:g}"
        text += f"; {self.down_mbps:g} Mbit/s down, {self.up_mbps:g} up"
        if self.loss:
            text += f"; {self.loss * 100:g} % of packets lost"
        return text


# Key in a custom link: field, least, greatest.
_FIELDS = {
    "rtt": ("rtt_ms", 0, 10_000),
    "jitter": ("jitter_ms", 0, 5_000),
    "down": ("down_mbps", 0.001, 100_000),
    "up": ("up_mbps", 0.001, 100_000),
    "loss": ("loss", 0, 1),
}


def _check_number(key: str, value: float, low: float, high: float) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not low <= value <= high:
        raise UserError(f"{key} of a link must be a number from {low:g} to {high:g}, not {value}.")


_PRESETS = (
    LinkSettings(
        rtt_ms=1, jitter_ms=0.1, down_mbps=1000, up_mbps=1000, name="lan",
        source="Wired LAN: gigabit by definition; 1 ms and its jitter are our choice (pings within "
        "a room show as under 1 ms, Tom's Hardware).",
    ),
    LinkSettings(
        rtt_ms=5, jitter_ms=3, down_mbps=30, up_mbps=15, loss=0.002, name="wifi",
        source="Home Wi-Fi: 30/15 Mbit/s from Firefox's throttling profile, 0.2 % loss from "
        "comcast's \"WIFI (good)\"; 5 ms and its jitter are our choice.",
    ),
    LinkSettings(
        rtt_ms=44, jitter_ms=10, down_mbps=309, up_mbps=13.6, name="5g",
        source="5G mid-band, US: T-Mobile in the second half of 2025, Ookla (RCR Wireless, "
        "3 February 2026); jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=19, jitter_ms=5, down_mbps=130, up_mbps=14.7, name="5g-uk",
        source="5G, UK: speeds of 2022-23, latency of 2023-24 between operators' 16.3 and 21.4 ms, "
        "Ofcom; jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=21, jitter_ms=8, down_mbps=29.5, up_mbps=7.6, name="4g-uk",
        source="4G, UK: speeds of 2022-23, latency of 2023-24 between operators' 18.3 and 23.7 ms, "
        "Ofcom; jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=60, jitter_ms=15, down_mbps=9, up_mbps=1.5, name="4g",
        source="4G, cautious: targets of Chrome DevTools' \"Fast 4G\"; 60 ms agrees with "
        "Opensignal's 44-66 ms (US states, early 2019); jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=150, jitter_ms=30, down_mbps=1.6, up_mbps=0.75, name="slow-4g",
        source="Slow 4G: Lighthouse's and Chrome's \"Slow 4G\", which is WebPageTest's "
        "\"3G Fast\"; jitter and no loss are our choice.",
    ),
    LinkSettings(
        rtt_ms=48, jitter_ms=6.7, down_mbps=118, up_mbps=17, loss=0.015, name="satellite",
        source="Starlink-class: speeds from Ookla 2025; round trip within 45-50 ms (Ookla 2025, "
        "UCLouvain 2022); jitter 6.7 ms and 1-2 % loss from Huston 2024; the values within these "
        "ranges are our choice. Its jumps of 30-50 ms every 15 s are not emulated.",
    ),
    LinkSettings(
        loss=1, name="offline",
        source="Offline: nothing passes, as Chrome DevTools' \"Offline\".",
    ),
)  # fmt: skip

PRESETS = MappingProxyType({settings.name: settings for settings in _PRESETS})
DEFAULT = "4g"
_ALIASES = {"home-wifi": "wifi", "5g-us": "5g", "starlink": "satellite", "none": "offline"}


def link(text: str | LinkSettings) -> LinkSettings:
    """Settings from a preset's name, `rtt=60,jitter=15,down=9`, or both: `4g,loss=0.01`.

    Units: ms, Mbit/s, fraction of packets. What is not named is as in the preset, or else the
    default of LinkSettings. UserError, with the names to choose from, for anything else.
    """
    if isinstance(text, LinkSettings):
        return text
    parts = [part.strip() for part in str(text).split(",")]
    name, base = "", LinkSettings()
    if "=" not in parts[0]:
        name = parts.pop(0).lower().replace("_", "-").replace(" ", "-")
        name = _ALIASES.get(name, name)
        if name not in PRESETS:
            raise UserError(f"No link is called {text!r}. {_CHOICES}")
        base = PRESETS[name]
    if not parts:
        return base
    changes = _changes(parts, str(text))
    if not name:
        return replace(base, **changes)
    by_hand = ",".join(parts)
    source = f"{base.source} Changed by hand: {by_hand}."
    return replace(base, **changes, name=f"{name},{by_hand}", source=source)


def _changes(parts: list[str], text: str) -> dict[str, Any]:
    """Field -> value of `key=value` parts."""
    changes: dict[str, float] = {}
    for part in parts:
        key, _, value = (piece.strip().lower() for piece in part.partition("="))
        if key not in _FIELDS:
            raise UserError(f"{part!r} in the link {text!r} is not known. {_CHOICES}")
        field, low, high = _FIELDS[key]
        if field in changes:
            raise UserError(f"{key} stands twice in the link {text!r}.")
        try:
            changes[field] = float(value)
        except ValueError:
            raise UserError(
                f"{key} of a link must be a number from {low:g} to {high:g}, not {value!r}."
            ) from None
    return changes


_CHOICES = (
    f"Choose one of {', '.join(PRESETS)}, or describe one: rtt=60,jitter=15,down=9,up=1.5,"
    f"loss=0.01 (keys: {', '.join(_FIELDS)})."
)
