"""Available models and their names: the default ones, folders, files, presets. Reads no weights."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from moa_core.assets import ASSETS
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Stepwise
from moa_core.drafters.names import LOOKUP, NGRAM, family, matched, method_name, no_such, tli_of
from moa_core.drafters.registry import METHODS, found_in, trained, without_weights
from moa_core.errors import UserError
from moa_core.loading import gguf
from moa_core.loading.hub import (
    DEFAULT,
    Report,
    default_folder,
    fetch_config,
    fetch_weights,
    silent,
)
from moa_core.loading.presets import Preset, pinned, untrained
from moa_core.untrusted import Count, read_config, section, value

DEFAULT_DRAFTER = "moa-n0"  # drafts without the target's own layers
HUB_ID = re.compile(r"[^/@\s]*[^/@\s.][^/@\s]*/[^/@\s]*[^/@\s.][^/@\s]*(@[^@\s]+)?")


class DrafterInfo(NamedTuple):
    name: str
    method: str  # of the registry, or "given"
    tli: int
    tree: TreeSettings


class Installed(NamedTuple):
    """A target with its drafters by method (moa-n1, eagle2): the default ones, a preset's, or named
    ones. `load_method` loads them."""

    target: str
    drafters: dict[str, DrafterInfo]

    @property
    def methods(self) -> list[str]:
        """What it can draft with, the methods without files of their own included."""
        moa = sorted((one for one in self.drafters if family(one) == "moa"), key=tli_of)
        # What a lookup can be joined with; of MoA, the smallest N.
        kinds = {one: METHODS.get(family(one)) for one in self.drafters if one not in moa[1:]}
        mixed = [one + LOOKUP for one, of in kinds.items() if of and issubclass(of, Stepwise)]
        return [*dict.fromkeys([*self.drafters, *mixed, *without_weights()])]


def models_folder() -> Path:
    """The folder of the default target's drafters: assets/models, or MOA_MODELS, which may also
    hold a target."""
    return Path(os.environ.get("MOA_MODELS") or ASSETS / "models")


def bundled_drafters() -> list[DrafterInfo]:
    return [_info(one, name) for name, one in _bundled_configs().items() if "drafter" in one]


def default_target() -> str:
    """The target in MOA_MODELS, if there is one; else SmolLM2-135M-Instruct."""
    there = (name for name, config in _bundled_configs().items() if "drafter" not in config)
    return next(there, DEFAULT)


def _bundled_configs() -> dict[str, dict[str, Any]]:
    paths = sorted(models_folder().glob("*/config.json"))
    return {path.parent.name: read_config(path.parent) for path in paths}


def bundled_moa() -> dict[int, str]:
    return {info.tli: info.name for info in bundled_drafters() if info.method == "moa"}


def default_drafter() -> str:
    """The bundled MoA drafter with the smallest N; n-gram lookup if none is bundled."""
    trained = bundled_moa()
    return trained[min(trained)] if trained else NGRAM


def bundle() -> Installed:
    """The default target and its drafters."""
    found = {method_name(info.method, info.tli): info for info in bundled_drafters()}
    return Installed(default_target(), found)


def folder_of(spec: str) -> Path | None:
    named = "/" not in spec and spec.strip(".")  # "", "." and ".." are no model's name
    places = ([models_folder() / spec] if named else []) + [Path(os.path.expanduser(spec))]
    return next((path for path in places if spec and os.path.isdir(path)), None)


def locate(spec: str | None) -> Path | str:
    """Where a model is: its folder, a GGUF file, a Hub id, or the default target's name (None).
    UserError for anything else."""
    spec = default_target() if spec is None else spec
    if folder := folder_of(spec):
        return folder
    if spec == DEFAULT:
        return spec
    if (path := Path(os.path.expanduser(spec))).suffix == gguf.SUFFIX and path.is_file():
        return path
    if "://" in spec:
        raise UserError(f"{spec} is an address: name a folder or a Hub id, as in owner/name.")
    file = spec.endswith(gguf.SUFFIX)
    if file or Path(spec).is_absolute() or spec.startswith((".", "~")) or spec.count("/") > 1:
        what = "file" if file else "folder"
        raise UserError(f"There is no {what} {spec}.")
    if "/" not in spec:
        raise UserError(no_such(spec, [default_target()], "model"))
    if not HUB_ID.fullmatch(spec):
        raise UserError(f"{spec!r} is neither a model's name, a folder, nor a Hub id.")
    return spec


def config_folder(spec: str | None, report: Report = silent) -> Path:
    """A folder with the config for a name, as `locate` takes it; a Hub id's is downloaded."""
    place = locate(spec)
    return fetch_config(str(place)) if on_hub(place) else files_of(place, report)


def files_of(place: Path | str, report: Report = silent) -> Path:
    """The folder with all files of what `locate` finds; downloaded or converted if necessary."""
    if isinstance(place, Path):
        return gguf.opened(place) if place.suffix == gguf.SUFFIX else place
    if place == DEFAULT:
        return default_folder(report)
    return fetch_weights(place, report, pinned(place))


def on_hub(place: Path | str) -> bool:
    return not isinstance(place, Path) and place != DEFAULT


def known_drafters() -> list[str]:
    """The names of the default target's drafters."""
    found = bundle()
    return [found.drafters[one].name if one in found.drafters else one for one in found.methods]


def drafter_name(spec: str) -> str:
    """A drafter's name from its name in any case, or its label; folders and Hub ids are returned
    unchanged. UserError, with the available names, for anything else."""
    known = known_drafters()
    if found := matched(spec, known):
        return found
    if spec.casefold().endswith(LOOKUP):
        return drafter_name(spec[: -len(LOOKUP)]) + LOOKUP
    if folder_of(spec) or "/" in spec or spec.startswith((".", "~")):
        return spec
    if family(spec) == "moa":
        raise UserError(untrained(tli_of(spec), bundled_moa()))
    if (method := spec.casefold()) in trained():
        raise UserError(
            f"No {method} drafter is bundled: choose from {', '.join(known)} (for "
            f"{default_target()}), name a folder, or train one: python -m moa_core train drafters "
            "--help"
        )
    raise UserError(no_such(spec, known, "drafter"))


def with_files(spec: str) -> str:
    """The name of the drafter whose files a drafter uses. UserError for one without files."""
    name = drafter_name(spec).removesuffix(LOOKUP)
    if name in without_weights():
        raise UserError(f"{name} has no files of its own: name a drafter that has.")
    return name


def layers_needed(spec: str | None) -> int:
    """How many of the target's last layers a drafter uses. Needs no target."""
    spec = default_drafter() if spec is None else drafter_name(spec).removesuffix(LOOKUP)
    if not folder_of(spec) and "/" not in spec:  # it has no files
        return 0
    return _info(read_config(config_folder(spec)), spec).tli


def tree_settings(stored: Mapping[str, Any], name: str) -> TreeSettings:
    """Tree settings from a config, with our defaults for what it leaves out."""
    try:
        return TreeSettings(
            **{key: stored[key] for key in ("depth", "breadth", "budget") if key in stored}
        )
    except UserError as error:
        raise UserError(f"{name} has a config.json with a wrong tree. {error}") from None


def _info(config: dict[str, Any], spec: str, tree: TreeSettings | None = None) -> DrafterInfo:
    """A drafter's info from its config. tree: for configs without one."""
    ours = section(config, "drafter", spec)
    own = section(ours, "tree", spec)
    kind = found_in(ours, config)
    shape = tree if tree and not own else tree_settings(own, spec)
    tli = value(ours, "tli", Count, spec, 0)  # the authors' files do not name N: theirs is 0
    return DrafterInfo(spec, kind.method if kind else "given", tli, shape)


def named(target: str, specs: Sequence[str], preset: Preset | None = None) -> Installed:
    """A target with a preset's drafters and named ones, which come first; configs of Hub ids are
    downloaded. UserError for two of one method."""
    found: dict[str, DrafterInfo] = {}
    tree = TreeSettings(*preset.tree) if preset else None  # for configs without one
    for spec in map(with_files, specs):
        info = _info(read_config(config_folder(spec)), spec, tree)
        method = method_name(info.method, info.tli)
        if method in found:
            raise UserError(
                f"{found[method].name} and {spec} are both {method} drafters: name one of them."
            )
        found[method] = info
    known = {
        method: DrafterInfo(spec, family(method), tli_of(method), tree or TreeSettings())
        for method, spec in (preset.by_method.items() if preset else ())
    }
    return Installed(target, known | found)
