"""Files from the Hugging Face Hub: revisions, download progress, and errors."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from huggingface_hub import constants, errors, get_hf_file_metadata, hf_hub_url, snapshot_download
from tqdm import tqdm

from moa_core.errors import UserError, first_line
from moa_core.loading.memory import size
from moa_core.untrusted import pickles_allowed

Report = Callable[[str], None]  # gets a sentence about progress

CONFIGS = ("*.json", "*.jinja", "tokenizer*", "*.model")
NESTED = ["*/*"]  # subfolders have other formats of the same weights
REPORT_EVERY = 0.5  # seconds


def silent(words: str) -> None:
    """A report that shows nothing."""


def split(spec: str) -> tuple[str, str | None]:
    """`id@revision` -> the id, and the commit, branch or tag; None if none is named."""
    name, _, revision = spec.partition("@")
    return name, revision or None


def short_name(spec: str) -> str:
    """An id for users: a commit is cut to its first eight digits."""
    name, revision = split(spec)
    if revision is None:
        return name
    return f"{name}@{revision[:8] if re.fullmatch('[0-9a-f]{40}', revision) else revision}"


def fetch_config(spec: str) -> Path:
    """The folder with everything but the weights."""
    return _fetch(spec, CONFIGS)


def fetch_weights(spec: str, report: Report = silent, pickles: bool = False) -> Path:
    """The folder with everything. Pickles only on request, and only without safetensors."""
    folder = _fetch(spec, (*CONFIGS, "*.safetensors"), report)
    if any(folder.glob("*.safetensors")) or not pickles_allowed(pickles):
        return folder
    return _fetch(spec, (*CONFIGS, "pytorch_model*.bin"), report)


def fetch_file(spec: str, name: str, report: Report = silent) -> Path:
    """One file of a repository."""
    return _fetch(spec, (name,), report) / name


def _fetch(spec: str, patterns: Sequence[str], report: Report = silent) -> Path:
    """The folder with a repository's files, downloaded if they are not in the cache. UserError,
    saying what to do, if they are not available."""
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)  # our message is enough
    name, revision = split(spec)
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
