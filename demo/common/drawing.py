"""SVG drawings in the page's colours: the parts of every drawing.

Colours come from CSS classes (drawing.css) and suit both themes; shapes repeat their meaning.
"""

from html import escape


def box(x: float, y: float, w: float, words: str, kind: str = "", h: float = 26) -> str:
    shape = f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="5"/>'
    return f'<g class="box {kind}">{shape}{text(x + w / 2, y + h / 2 + 4.5, words, "middle")}</g>'


def text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str = "") -> str:
    """A straight line; the kind `to` has an arrowhead."""
    return f'<path class="line {kind}" d="M{x1:g} {y1:g}L{x2:g} {y2:g}"/>'


def brace(x1: float, x2: float, y: float, words: str) -> str:
    path = f'<path class="line" d="M{x1:g} {y:g}v6H{x2:g}v-6"/>'
    return path + text((x1 + x2) / 2, y + 21, words, "middle quiet")


def svg(name: str, title: str, about: str, height: int, *parts: str, width: int = 360) -> str:
    """A drawing with its accessible name and description. name: unique on the page."""
    ids = f"drawing-{name}-title", f"drawing-{name}-desc"
    head = (
        f'<marker id="head-{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker>'
    )
    return (
        f'<svg class="drawing-svg" viewBox="0 0 {width} {height}" role="img" '
        f'style="--head: url(#head-{name})" aria-labelledby="{ids[0]}" '
        f'aria-describedby="{ids[1]}"><title id="{ids[0]}">{escape(title)}</title>'
        f'<desc id="{ids[1]}">{escape(about)}</desc><defs>{head}</defs>{"".join(parts)}</svg>'
    )
