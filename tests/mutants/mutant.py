"""What a mutant is, and whether it still fits the code that it breaks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Stale(Exception):
    """A mutant whose text is no longer in its file, or no longer once: it has to be looked at."""


@dataclass(frozen=True)
class Mutant:
    """One way to break `moa_core`, and who must notice.

    name   short, to choose it by: what is wrong then
    path   file within moa_core
    old    text that stands there exactly once
    new    what stands there instead
    tests  files within tests/moa_core: the tests of that module, the likeliest first
    """

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]

    def file(self, root: Path) -> Path:
        """The file that it breaks."""
        return root / "moa_core" / self.path

    def test_files(self) -> list[str]:
        """Its tests, from the root of the tree."""
        return [f"tests/moa_core/{name}" for name in self.tests]

    def broken(self, root: Path = ROOT) -> str:
        """Its file's text with the break in it. Stale; SyntaxError if that is no Python."""
        path = self.file(root)
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        count = text.count(self.old)
        if count != 1:
            raise Stale(f"{self.name}: its text stands {count} times in {path}, not once.")
        changed = text.replace(self.old, self.new)
        compile(changed, str(path), "exec")
        return changed
