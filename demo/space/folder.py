"""Write a Space's folder: python -m demo.space.folder OUT --name OWNER/NAME"""

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from moa_core.arguments import check_new, path
from moa_core.errors import UserError, ended
from moa_core.loading.catalog import HUB_ID

PREVIEW = "assets/pictures/live.png"
ROOT = Path(__file__).parents[2]
SENT = (
    "README.md", "LICENSE", "NOTICE", "CITATION.cff", "CHANGELOG.md", "CONTRIBUTING.md", "app.py",
    "requirements.txt", "demo", "docs", "moa_core", "assets",
    "tests/parity/README.md",
)  # fmt: skip
CPU_TORCH = "--extra-index-url https://download.pytorch.org/whl/cpu\n"
ZERO_TORCH = "2.11.0"  # the newest on ZeroGPU's list
FLAVORS = {"cpu": "cpu-basic", "gpu": "l4x1", "zero": "zero-a10g"}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.space.folder", description=__doc__)
    parser.add_argument("out", type=path, help="a folder that does not exist yet")
    parser.add_argument("--hardware", choices=FLAVORS, default="cpu")
    parser.add_argument("--name", help="OWNER/NAME of the Space, for its preview picture")
    options = parser.parse_args(arguments)

    def run() -> None:
        write(options.out, options.hardware, options.name)
        print(
            f"{options.out} is ready: hf upload {options.name or 'OWNER/NAME'} {options.out} . "
            '--type space --delete "*"'
        )

    return ended(run)


def write(out: Path, hardware: str, name: str | None = None) -> None:
    """Copy a Space's files; adapt the README's header and the requirements.

    UserError for a folder that is not empty, an invalid name, or outside a clone.
    """
    check_new(out)
    if name and not HUB_ID.fullmatch(name):
        raise UserError(f"{name!r} is not the name of a Space, which looks like owner/name.")
    listed = subprocess.run(
        ["git", "ls-files", *SENT], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode or not listed.stdout:
        raise UserError(f"{ROOT} is not a clone of the repository: git lists no files there.")
    for file in listed.stdout.splitlines():
        if (ROOT / file).exists():
            (out / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / file, out / file)
    for file, change in (("README.md", card), ("requirements.txt", requirements)):
        text = (out / file).read_text(encoding="utf-8")
        (out / file).write_text(change(text, hardware, name), encoding="utf-8")


def card(text: str, hardware: str, name: str | None) -> str:
    """The README with the suggested hardware and, for a named Space, a preview picture."""
    text = re.sub(r"(?m)^suggested_hardware: .*$", f"suggested_hardware: {FLAVORS[hardware]}", text)
    if name and (ROOT / PREVIEW).exists():
        picture = f"https://huggingface.co/spaces/{name}/resolve/main/{PREVIEW}"
        text = text.replace("\n---\n", f"\nthumbnail: {picture}\n---\n", 1)
    return text


def requirements(text: str, hardware: str, name: str | None) -> str:
    """CPU: without CUDA (4.5 GB) and quantisation. ZeroGPU: its own torch."""
    if hardware == "zero":
        return re.sub(r"(?m)^torch==.*$", f"torch=={ZERO_TORCH}", text)
    if hardware == "gpu":
        return text
    text = re.sub(r"(?m)^(torch==\S+)$", r"\1+cpu", text)
    return CPU_TORCH + re.sub(r"(?m)^(# 4- and 8-bit .*|bitsandbytes.*)\n", "", text)


if __name__ == "__main__":
    sys.exit(main())
