"""What the status line says of a run while its link is lost, and when it is back."""

from __future__ import annotations

from demo.common.figures import many
from demo.common.offline import Healing
from moa_core.decoding.trace import Drafted, Event, LinkBack, LinkDown

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
