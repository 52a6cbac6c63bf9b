"""The page's JavaScript: modules as they are, or in one script for a page that opens from disk."""

import re
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from demo.common.theme import DEMO

IMPORT = re.compile(r'^import (?:\{([^}]*)\} from )?"(\.[^"]+)";\n', re.M)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|function|class)\*? (\w+))", re.M)
GRADIO = Path(gr.__file__).parent / "templates" / "frontend" / "assets"
SECONDS = "((act) => setTimeout(act, 1000))"


class Scripts(StaticFiles):
    """Serves the modules of `demo/`; browsers ask each time whether theirs are the newest."""

    def __init__(self) -> None:
        super().__init__(directory=DEMO)

    async def get_response(self, path: str, scope: Any) -> Response:
        if not path.endswith(".js"):
            raise HTTPException(404)
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


def tracker(request: Request) -> Response:
    """gradio's loading screen, with a timer that ticks once a second: in gradio 6.31, it asks for
    60 frames a second as long as the page is open, which takes time from runs on this machine."""
    path = GRADIO / f"statustracker-{request.path_params['rest']}.js"
    if not path.is_file():
        raise HTTPException(404)
    text = path.read_text("utf-8").replace("window.requestAnimationFrame", SECONDS)
    return Response(text, media_type="text/javascript")


def modules(first: str) -> list[str]:
    """A module and all that it imports, each after its own imports: paths below `demo/`."""
    found: list[str] = []

    def visit(path: Path) -> None:
        for _, name in IMPORT.findall(path.read_text("utf-8")):
            visit((path.parent / name).resolve())
        if (name := path.relative_to(DEMO).as_posix()) not in found:
            found.append(name)

    visit(DEMO / first)
    return found


def bundled(*firsts: str) -> str:
    """The modules and their imports as one classic script, which leaves `modules`, by path.

    Each has a function's scope of its own. They may use `import {...} from "./..."`, and `export`
    before const, function and class.
    """
    names = dict.fromkeys(name for first in firsts for name in modules(first))
    return "const modules = {};\n" + "\n".join(map(_wrapped, names))


def _wrapped(name: str) -> str:
    path = DEMO / name
    text = path.read_text("utf-8")
    exported = EXPORT.findall(text)

    def taken(found: re.Match[str]) -> str:
        source = (path.parent / found[2]).resolve().relative_to(DEMO).as_posix()
        names = (found[1] or "").replace(" as ", ": ")
        return f'const {{{names}}} = modules["{source}"];\n'

    body = EXPORT.sub("", IMPORT.sub(taken, text))
    rest = re.search(r"^(?:import|export)\b.*", body, re.M)
    assert rest is None, f"{name}: {rest and rest[0]}"
    return f'modules["{name}"] = (() => {{\n{body}return {{ {", ".join(exported)} }};\n}})();'
