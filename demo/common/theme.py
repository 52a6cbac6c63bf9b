"""The page's theme, style sheets and static files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradio as gr
from gradio.themes import LocalFont

DEMO = Path(__file__).parents[1]
SHARED = sorted((DEMO / "common").rglob("*.css"), key=lambda path: path.name != "page.css")
# Shared styles come first, so that a tab's own file overrides them.
CSS = [*SHARED, *(path for path in sorted(DEMO.rglob("*.css")) if path not in SHARED)]


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


def script(*names: str) -> str:
    """A script that runs when its component mounts: files of `demo/`, in one scope."""
    return "\n".join((DEMO / name).read_text(encoding="utf-8") for name in names)


def component(template: str, *scripts: str, value: Any = "", **kwargs: Any) -> gr.HTML:
    """HTML with our scripts and without gradio's style."""
    return gr.HTML(
        value, html_template=template, js_on_load=script(*scripts), apply_default_css=False,
        **kwargs,
    )  # fmt: skip


def plot(figure: Any = None, **kwargs: Any) -> gr.Plot:
    return gr.Plot(figure, show_label=False, container=False, **kwargs)
