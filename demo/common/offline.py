"""What happens to tokens that were written offline, event by event."""

from dataclasses import dataclass, field

from moa_core.decoding.trace import Event, Finished, OfflineToken, Verified
from moa_core.decoding.verify import first_difference


@dataclass(frozen=True)
class Healed:
    """What one event did to the waiting offline tokens.

    confirmed  how many the target agrees with, from the first on
    changed    how many of the others the target's text replaces
    dropped    how many were not verified when the run ended
    """

    confirmed: int = 0
    changed: int = 0
    dropped: int = 0


@dataclass
class Healing:
    """Offline tokens that wait for verification."""

    waiting: list[OfflineToken] = field(default_factory=list)
    _newest: bool = False  # whether nothing was verified since they were written

    def add(self, event: Event) -> Healed:
        """Process one more event."""
        match event:
            case OfflineToken():
                # After a second loss the drafter may begin again, at the newest sure token.
                self.waiting = [one for one in self.waiting if one.position < event.position]
                self.waiting.append(event)
                self._newest = True
            case Verified() if self.waiting:
                return self._verified(event)
            case Finished() if self.waiting and not self._newest:
                dropped, self.waiting = len(self.waiting), []
                return Healed(dropped=dropped)
        return Healed()

    def _verified(self, event: Verified) -> Healed:
        self._newest = False
        offline = [one.token for one in self.waiting]
        same = first_difference(event.emitted, offline)
        if same is None:  # one of the two texts begins with the other
            same = min(len(event.emitted), len(offline))
        parted = same < len(event.emitted)
        self.waiting = [] if parted else self.waiting[same:]
        return Healed(same, len(offline) - same if parted else 0)
