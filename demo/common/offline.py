"""What happens to tokens that were written offline, event by event."""

from moa_core.decoding.trace import Event, Finished, OfflineToken, Verified
from moa_core.decoding.verify import first_difference


class Healing:
    """Offline tokens that wait for verification."""

    def __init__(self) -> None:
        self.waiting: list[OfflineToken] = []
        self._newest = False  # whether nothing was verified since they were written

    def add(self, event: Event) -> dict[str, int]:
        """Process one more event. Returns what it did to waiting tokens, without zeros:

        confirmed  how many the target agrees with, from the first on
        changed    how many of the others the target's text replaces
        dropped    how many were not verified when the run ended
        """
        found = {}
        match event:
            case OfflineToken():
                # After a second loss the drafter may begin again, at the newest sure token.
                self.waiting = [one for one in self.waiting if one.position < event.position]
                self.waiting.append(event)
                self._newest = True
            case Verified():
                offline, emitted = [one.token for one in self.waiting], event.emitted
                same = first_difference(emitted, offline)
                if same is None:  # one of the two texts begins with the other
                    same = min(len(emitted), len(offline))
                kept = 0 if same < len(emitted) else len(offline) - same
                found = {"confirmed": same, "changed": len(offline) - same - kept}
                self.waiting = self.waiting[len(offline) - kept :]
                self._newest = False
            case Finished() if not self._newest:
                found, self.waiting = {"dropped": len(self.waiting)}, []
        return {name: count for name, count in found.items() if count}
