"""All colours that carry meaning, for text, trees, charts and lessons.

Each has three shades: `light` and `dark` for words in the two themes, and `mark` for areas and
lines of charts, which must be visible in both. A shape always repeats what a colour says.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colour:
    """The shades of one meaning."""

    light: str
    dark: str
    mark: str


PALETTE = {
    "accepted": Colour("#037f7e", "#5eeadf", "#2a9d97"),
    "rejected": Colour("#8f2331", "#f7667a", "#ab4a44"),
    "bonus": Colour("#a0610c", "#ffc437", "#cb8029"),  # the target's own
    "offline": Colour("#7133c2", "#a583f7", "#8e5bd3"),
    "drafter": Colour("#0068b3", "#58b0ff", "#2387d6"),
    "moa": Colour("#304fdc", "#8aa6ff", "#4a6af8"),
    "eagle2": Colour("#a3487e", "#f8609e", "#e75cb1"),
    "plain": Colour("#4d4844", "#d6d0cb", "#76716c"),
}
MOA_SHADES = ("#768df8", "#677ff8", "#5772f8", "#4361f6")  # N = 0 to 3: darker for a larger N
OTHER_METHODS = {  # by family; never used for tokens
    "moa-auto": "#7a5195",
    "eagle3": "#b3542f",
    "eagle": "#c99b2b",
    "glide": "#2b93b8",
    "medusa": "#8f6ad0",
    "independent": "#4f9d69",
    "ngram": "#8a7a3c",
}


def mark(name: str) -> str:
    return PALETTE[name].mark


def style_sheet() -> str:
    """The colours as variables: --accepted, --accepted-ground, --accepted-mark ..."""
    return f":root {{ {_variables('light', 0.12)} }}\n.dark {{ {_variables('dark', 0.15)} }}\n"


def _variables(theme: str, ground: float) -> str:
    found = []
    for name, colour in PALETTE.items():
        shade = getattr(colour, theme)
        red, green, blue = (int(shade[at : at + 2], 16) for at in (1, 3, 5))
        found += [
            f"--{name}: {shade};",
            f"--{name}-ground: rgba({red}, {green}, {blue}, {ground});",
            f"--{name}-mark: {colour.mark};",
        ]
    return " ".join(found)
