"""A Hub repository with which transformers' own `generate` drafts: our loop as its files.

transformers fetches `custom_generate/generate.py` and what it imports relatively, and only from
the same folder: so the modules lie side by side there, renamed, and import each other by a dot.
Nothing is written twice: the files are this package's own, at the time of the export.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from torch import Tensor

from moa_core.export.source import Source
from moa_core.formats import drafter_config

PACKAGE = Path(__file__).parents[1]
START = "export.generate"
IMPORT = re.compile(r"^([ \t]*)from moa_core\.([\w.]+) import\b", re.MULTILINE)
OTHER = re.compile(r"^[ \t]*(?:import moa_core|from moa_core import)\b", re.MULTILINE)
NEEDS = ("torch>=2.11", "transformers>=5.17", "safetensors>=0.8")
FOLDER = "custom_generate"


def custom_generate_files(source: Source) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors in our own layout, which the copied loader reads."""
    about = {key: value for key, value in source.ours.items() if key not in ("method", "tli")}
    written = drafter_config(source.drafter, source.target, {})
    written["drafter"] |= {key: about[key] for key in about if key != "target"}
    written["drafter"]["target"]["name"] = source.verifier
    return written, source.tensors


def code() -> dict[str, str]:
    """File name -> text of everything in the repository's `custom_generate` folder."""
    modules, wanted = {}, [START]
    while wanted:
        name = wanted.pop()
        if name in modules:
            continue
        path = PACKAGE / f"{name.replace('.', '/')}.py"
        text = without_types(path.read_text(encoding="utf-8"))
        if OTHER.search(text):
            raise RuntimeError(f"moa_core.{name} imports the package in a way not copied here")
        modules[name] = text
        wanted += [found for _, found in IMPORT.findall(text)]
    files = {f"{flat(name)}.py": _copied(name, text) for name, text in modules.items()}
    return files | {"requirements.txt": "\n".join(NEEDS) + "\n"}


def without_types(text: str) -> str:
    """A module without what it imports for its annotations alone, which nobody evaluates."""
    lines = text.splitlines(keepends=True)
    for node in reversed(ast.parse(text).body):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            lines[node.lineno : node.end_lineno] = ["    pass\n"]
    return "".join(lines)


def flat(name: str) -> str:
    """A module's name among its siblings: drafters.moa -> drafters_moa."""
    return "generate" if name == START else name.replace(".", "_")


def _copied(name: str, text: str) -> str:
    note = f"# moa_core/{name.replace('.', '/')}.py, Apache-2.0, copied here by its export.\n"
    return note + IMPORT.sub(lambda found: f"{found[1]}from .{flat(found[2])} import", text)
