"""Write a page that needs no server: a recorded run, a cut connection and a race."""

import argparse
import json
import re
import shutil
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template

import gradio as gr

from demo.common.figures import about_of, method_of
from demo.common.scripts import bundled
from demo.common.theme import CSS, style_sheet, theme
from demo.compare.race import recorded_race
from demo.live.recording import COMMAND, Recording, recording
from demo.ui import ABOUT, ICON, TITLE
from moa_core.arguments import check_new, path
from moa_core.errors import UserError, ended

HERE = Path(__file__).parent
FRONTEND = Path(gr.__file__).parent / "templates" / "frontend"  # gradio's, with its fonts
SPACE = f'---\ntitle: "{TITLE}, recorded"\nsdk: static\nlicense: apache-2.0\n---\n'


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.static", description=__doc__)
    parser.add_argument("out", type=path, help="a folder that does not exist yet")
    out = parser.parse_args(arguments).out

    def run() -> None:
        write(out)
        print(f"{out} is ready: open {out / 'index.html'}, or upload the folder as a static Space.")

    return ended(run)


def write(out: Path) -> None:
    """Write the page as one file that a browser can open from disk, and a static Space's README.

    UserError for a folder that is not empty, or without a recorded run.
    """
    check_new(out)
    kept = recording()
    if kept is None:
        raise UserError(f"There is no recorded run yet: {COMMAND} makes one.")
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.html").write_text(page(kept), encoding="utf-8")
    (out / "README.md").write_text(SPACE, encoding="utf-8")
    shutil.copy2(ICON, out)


def page(kept: Recording) -> str:
    """index.html: the app's own modules as one classic script, because disks serve no modules."""
    played = {"run": kept.stage(), "cut": kept.stage(cut=True), "race": recorded_race()}
    machine = kept.trace.about.get("machine", {})
    said = {
        "title": TITLE,
        "about": ABOUT,
        "method": method_of(kept.trace),
        "rival": method_of(kept.rival),
        "made": f"{about_of(kept.trace)} · {machine.get('processor', '')}",
        "prompt": str(kept.trace.about.get("prompt", "")),
    }
    return Template((HERE / "page.html").read_text(encoding="utf-8")).substitute(
        {name: escape(text) for name, text in said.items()},
        css=style(),
        scripts=bundled("live/stage.js", "compare/race.js"),
        # Model text must not become markup or end a script.
        recorded=json.dumps(played, ensure_ascii=False).replace("<", "\\u003c"),
    )


def style() -> str:
    drawn = re.sub(r"url\('(static/fonts/[^']+)'\)", _inlined, theme()._get_theme_css())
    return "\n".join([drawn, style_sheet(), *(path.read_text(encoding="utf-8") for path in CSS)])


def _inlined(found: re.Match[str]) -> str:
    font = b64encode((FRONTEND / found[1]).read_bytes()).decode()
    return f"url(data:font/woff2;base64,{font})"
