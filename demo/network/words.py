"""What the Network tab says of a run: while its link is lost, when it is back, and at the end."""

from __future__ import annotations

from demo.common.figures import many, stats
from demo.common.offline import Healing
from demo.common.tokens.view import ENDINGS
from demo.network.server import Client
from moa_core.decoding.trace import Drafted, Event, LinkBack, LinkDown, Trace
from moa_core.drafters.base import Drafter
from moa_core.link.emulator import LinkSettings

NOT_OURS = "they are the drafter’s, not the target’s"


class Words:
    """Follows a run's events; `now` is the sentence for its status line.

    able      whether the drafter can go on alone
    patience  seconds to wait for the link when there is no more to write
    """

    def __init__(self, able: bool, patience: float) -> None:
        self.now = ""
        self.lost = False
        self._able, self._patience = able, patience
        self._reads = False  # whether the drafter has what it needs of the prompt
        self._healing = Healing()
        self._before = (0, 0, 0)  # confirmed, changed and kept before the link was lost
        self._healed = True

    def add(self, event: Event) -> None:
        """Follow one more event."""
        self._healing.add(event)
        match event:
            case Drafted():
                self._reads = True
            case LinkDown():
                self.lost, self.now = True, self._down()
                if self._healed:  # else lost once more before all was verified
                    self._before, self._healed = self._counts, False
            case LinkBack():
                self.lost = False
                self._healed = not event.tokens
                self.now = "The link is back."
                if event.tokens:
                    self.now += " What was written offline goes to the target."
            case _ if not (self.lost or self._healed or self._healing.waiting):
                self._healed = True
                self.now = f"The link is back: {self._made()}."

    @property
    def _counts(self) -> tuple[int, int, int]:
        return self._healing.confirmed, self._healing.changed, self._healing.kept

    def _down(self) -> str:
        if not self._reads:
            return (
                "The link is lost before the drafter could read the prompt: the run waits "
                f"{self._patience:g} s."
            )
        if self._able:
            return "The link is lost: the drafter goes on alone."
        return (
            "The link is lost: the server streams plainly, so nothing goes on until it is back "
            f"(the run waits {self._patience:g} s)."
        )

    def _made(self) -> str:
        new = [now - then for now, then in zip(self._counts, self._before, strict=True)]
        return healed(*new)


def healed(confirmed: int, changed: int, kept: int) -> str:
    """What became of offline tokens, in words."""
    if kept:
        return f"{_offline(kept)} kept; {NOT_OURS}"
    return f"{_offline(confirmed)} confirmed, {changed} changed"


def _offline(count: int) -> str:
    return many(count, "offline token")


def summary(trace: Trace) -> str:
    """A finished run in some sentences."""
    found = stats(trace)
    parts = [f"{many(found['tokens'], 'token')} in {many(found['calls'], 'server call')}"]
    link = found.get("link")
    if link:
        parts.append(f"the first after {1000 * link['first']:.0f} ms")
    if found["decode_rate"]:
        parts.append(f"then {1000 / found['decode_rate']:.1f} ms per token")
    said = f"{', '.join(parts)}; {ENDINGS.get(trace.reason or '', trace.reason)}."
    if link and link["confirmed"] + link["changed"] + link["kept"]:
        counts = (link["confirmed"], link["changed"], link["kept"])
        said += f" {healed(*counts).capitalize()}."
    if link and link["unverified"]:
        said += f" The last {_offline(link['unverified'])}: not verified; {NOT_OURS}."
    return said


def weight(client: Client, drafter: Drafter, link: LinkSettings) -> str:
    """What the client had to fetch and holds, in a sentence."""
    held = client.weighs(drafter)
    fetched = held["embeddings"] + held["layers"]
    parts = "embeddings, head and norm"
    if tli := drafter.tli:
        parts += f", and for N = {tli} its last {'layer' if tli == 1 else f'{tli} layers'}"
    whole = sum(one.numel() * one.element_size() for one in client.target.model.parameters())
    seconds = fetched * 8e-6 / link.down_mbps
    return (
        f"Download size: {_mb(fetched)} of the target ({parts}) and {_mb(held['drafter'])} of "
        f"drafter; the whole target has {_mb(whole)}. The target’s part is fetched once and kept: "
        f"at {link.down_mbps:g} Mbit/s that takes {_seconds(seconds)}; here it came without the "
        "link."
    )


def _mb(count: int) -> str:
    return f"{count / 1e6:.1f} MB"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} minutes"
