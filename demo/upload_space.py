"""Make a Space of this program, or bring one up to date:

    python -m demo.upload_space someone/moa --dry-run
    python -m demo.upload_space someone/moa --hardware zero-a10g

What the app needs goes there, weights included, and whatever else the Space has is removed. Plain
git would not do: the Hub refuses files over 10 MB in it, and other binary files at times. Its
client asks for each file whether it is one for large storage, and sends it there if so.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from huggingface_hub import HfApi, SpaceHardware, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from huggingface_hub.utils import filter_repo_objects, validate_repo_id

from moa_core.errors import UserError, first_line

ROOT = Path(__file__).parents[1]
WANTED = (
    "README.md", "LICENSE", "CITATION.cff", "app.py", "requirements.txt",
    "demo/*", "docs/*", "moa_core/*", "assets/*",
)  # fmt: skip
UNWANTED = ("*.pyc", "*/__pycache__/*", "*/.*")
ZERO_TORCH = "2.11.0"  # the newest that ZeroGPU's list names; the program runs on it, too
NO_TOKEN = (
    "There is no token of the Hub here. Make one that may write, at "
    "https://huggingface.co/settings/tokens, and set HF_TOKEN to it, or run: hf auth login"
)


def files(root: Path = ROOT) -> list[Path]:
    """What a Space needs, relative to the program's folder."""
    there = sorted(path for path in root.rglob("*") if path.is_file())
    names = [path.relative_to(root).as_posix() for path in there]
    kept = filter_repo_objects(names, allow_patterns=[*WANTED], ignore_patterns=[*UNWANTED])
    return [Path(name) for name in kept]


def stage(folder: Path, torch: str | None = None, root: Path = ROOT) -> None:
    """Copy it into an empty folder, as it is sent. torch: another version of it to ask for."""
    for path in files(root):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, folder / path)
    if torch is not None:
        pins = folder / "requirements.txt"
        pins.write_text(with_torch(pins.read_text(encoding="utf-8"), torch), encoding="utf-8")


def with_torch(pins: str, version: str) -> str:
    """The same requirements with another torch. UserError for what is no version."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise UserError(f"{version!r} is no version of torch: write it like {ZERO_TORCH}.")
    return re.sub(r"(?m)^torch==\S+$", f"torch=={version}", pins)


def torch_for(hardware: str | None, asked: str | None) -> str | None:
    """The torch to ask for: what was named, what ZeroGPU has, or None for the program's own."""
    return asked or (ZERO_TORCH if (hardware or "").startswith("zero") else None)


def listing(folder: Path) -> str:
    """Every file with its size in bytes, and their sum."""
    sizes = {path: (folder / path).stat().st_size for path in files(folder)}
    lines = [f"{size:>12,}  {path}" for path, size in sizes.items()]
    return "\n".join([*lines, f"{sum(sizes.values()):>12,}  in {len(sizes)} files"])


def upload(api: Any, name: str, folder: Path, private: bool, hardware: str | None) -> str:
    """Create the Space if it is not there, and make its files those of the folder. Its address.

    api  a `huggingface_hub.HfApi`. UserError, in the Hub's own words, for what it refuses.
    """
    try:
        made = api.create_repo(
            name, repo_type="space", space_sdk="gradio", private=private, exist_ok=True,
            space_hardware=hardware,
        )  # fmt: skip
        api.upload_folder(
            repo_id=name, repo_type="space", folder_path=folder, delete_patterns="*",
            commit_message="The program as it is now",
        )  # fmt: skip
    except (HfHubHTTPError, OSError, ValueError) as error:
        raise UserError(f"The Hub did not take it: {first_line(error)}") from error
    return str(made)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = argparse.ArgumentParser(
        prog="python -m demo.upload_space", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("name", help="owner/name of the Space")
    made.add_argument("--dry-run", action="store_true", help="list what would go, and send nothing")
    made.add_argument("--private", action="store_true", help="a new Space is for its owner alone")
    made.add_argument(
        "--hardware", choices=[one.value for one in SpaceHardware], metavar="KIND",
        help="for a new Space, e.g. cpu-basic, zero-a10g, l4x1; default: what the Hub gives",
    )  # fmt: skip
    made.add_argument(
        "--torch", metavar="VERSION",
        help=f"ask for this torch; default: the program's, and {ZERO_TORCH} on ZeroGPU",
    )  # fmt: skip
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """The command. Its exit status: 0, or 2 with a sentence."""
    options = parser().parse_args(arguments)
    try:
        validate_repo_id(options.name)
        if "/" not in options.name:
            raise UserError(f"{options.name!r} has no owner: write it as owner/name.")
        with TemporaryDirectory(prefix="moa-space-") as name:
            folder = Path(name)
            stage(folder, torch_for(options.hardware, options.torch))
            print(listing(folder))
            if options.dry_run:
                return 0
            if not get_token():
                raise UserError(NO_TOKEN)
            address = upload(HfApi(), options.name, folder, options.private, options.hardware)
    except (UserError, HFValidationError) as error:
        print(first_line(error), file=sys.stderr)
        return 2
    print(f"{address}\nFor models that the Hub guards, give it a secret HF_TOKEN in its settings.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
