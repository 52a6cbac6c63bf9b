"""The page's theme and style sheets, and all colours that carry meaning.

A shape always repeats what a colour says.
"""

from dataclasses import dataclass
from pathlib import Path

import gradio as gr
from gradio.themes import LocalFont

DEMO = Path(__file__).parents[1]
SHARED = sorted((DEMO / "common").rglob("*.css"), key=lambda path: path.name != "page.css")
# Shared styles come first, so that a tab's own file overrides them.
CSS = [*SHARED, *(path for path in sorted(DEMO.rglob("*.css")) if path not in SHARED)]


@dataclass(frozen=True)
class Colour:
    """The shades of one meaning, for text, trees, charts and lessons.

    light  words in the light theme
    dark   words in the dark theme
    mark   areas and lines of charts, visible in both
    """

    light: str
    dark: str
    mark: str


PALETTE = {
    "accepted": Colour("#037f7e", "#5eeadf", "#2a9d97"),
    "rejected": Colour("#8f2331", "#f7667a", "#ab4a44"),
    "bonus": Colour("#a0610c", "#ffc437", "#cb8029"),  # the target's own
    "offline": Colour("#7133c2", "#a583f7", "#8e5bd3"),
    "drafter": Colour("#0068b3", "#58b0ff", "#2387d6"),
    "moa": Colour("#304fdc", "#8aa6ff", "#404df9"),
    "eagle2": Colour("#a3487e", "#f8609e", "#e75cb1"),
    "plain": Colour("#4d4844", "#d6d0cb", "#76716c"),
}
MOA_SHADES = (PALETTE["moa"].mark, "#4397f4", "#7c8cc8", "#9c3fb5")  # N = 0 to 3
OTHER_METHODS = {  # by family; never used for tokens
    "eagle3": "#b3542f",
    "tandem": "#2b93b8",
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
    found = [f"--{name}-mark: {shade};" for name, shade in OTHER_METHODS.items()]
    for name, colour in PALETTE.items():
        shade = getattr(colour, theme)
        red, green, blue = (int(shade[at : at + 2], 16) for at in (1, 3, 5))
        found += [
            f"--{name}: {shade};",
            f"--{name}-ground: rgba({red}, {green}, {blue}, {ground});",
            f"--{name}-mark: {colour.mark};",
        ]
    return " ".join(found)


def theme() -> gr.themes.Base:
    """The theme, in fonts that gradio ships, so that nothing is fetched."""
    plain = gr.themes.Base(
        primary_hue="teal",
        neutral_hue="stone",
        # Only regular and bold: gradio 6.31's semi-bold files lack letters.
        font=(LocalFont("IBM Plex Sans", (400, 700)), "ui-sans-serif", "system-ui", "sans-serif"),
        font_mono=(LocalFont("IBM Plex Mono", (400, 700)), "ui-monospace", "monospace"),
        radius_size="md",
    )
    # Dark enough under white letters, which gradio's own shade of teal is not; its small grey
    # letters are too pale to read, and its empty boxes too pale to find.
    return plain.set(
        body_text_color_subdued="*neutral_600",
        checkbox_border_color="*neutral_500",
        checkbox_border_color_dark="*neutral_400",
        input_placeholder_color="*neutral_600",
        input_placeholder_color_dark="*neutral_300",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_primary_background_fill_hover_dark="*primary_800",
        slider_color="*primary_600",
        checkbox_background_color_selected="*primary_600",
        color_accent="*primary_600",
    )
