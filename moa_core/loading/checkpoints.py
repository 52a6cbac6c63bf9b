"""From a name to a model: bundled names, folders and Hub ids become targets and drafters."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from moa_core.assets import ASSETS
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.auto import AutoDrafter
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.known import WITHOUT_WEIGHTS
from moa_core.drafters.moa import MoADrafter
from moa_core.engine import accelerate, accelerate_drafter
from moa_core.errors import UserError, first_line
from moa_core.loading.fitting import mapping, whole
from moa_core.loading.formats import build_drafter, read_config, read_tensors, tree_settings
from moa_core.loading.hub import fetch_config, fetch_weights, short_name, split
from moa_core.loading.loading import Plan, check_room, read_model, wanted_drafts
from moa_core.loading.memory import stored
from moa_core.loading.names import AUTO, matched, no_such
from moa_core.loading.peers import check_tokenizer, whole_model
from moa_core.loading.presets import pinned, untrained
from moa_core.loading.shapes import config_of
from moa_core.model.target import Target

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEFAULT_DRAFTER = "moa-n0"  # drafts without the target's own layers


@dataclass(frozen=True)
class DrafterInfo:
    """What a bundled drafter's config says about it."""

    name: str
    method: str  # moa, eagle2, medusa, glide or independent
    tli: int
    tree: TreeSettings
    parameters: int | None


def models_folder() -> Path:
    """Where bundled models lie: assets/models, or the folder named by MOA_MODELS."""
    named = os.environ.get("MOA_MODELS")
    return Path(named) if named else ASSETS / "models"


def bundled_drafters() -> list[DrafterInfo]:
    """The drafters that came with the program, by name. Reads configs only."""
    found = []
    for path in sorted(models_folder().glob("*/config.json")):
        config = read_config(path.parent)
        ours = mapping(config, "drafter", path.parent.name)
        if isinstance(ours.get("method"), str):
            found.append(
                DrafterInfo(
                    path.parent.name,
                    ours["method"],
                    whole(ours, "tli", 0, path.parent.name, 0),
                    tree_settings(mapping(ours, "tree", path.parent.name)),
                    ours.get("parameters"),
                )
            )
    return found


def bundled_target() -> str:
    """Name of the target that came with the program."""
    for path in sorted(models_folder().glob("*/config.json")):
        if "drafter" not in read_config(path.parent):
            return path.parent.name
    raise UserError(f"There is no bundled target in {models_folder()}: name one with --target.")


def locate(spec: str) -> Path | str:
    """The folder a name stands for, or a Hub id as it is. UserError if it can be neither."""
    if folder := _folder(spec):
        return folder
    if Path(spec).is_absolute() or spec.startswith((".", "~")) or spec.count("/") > 1:
        raise UserError(f"There is no folder {spec}.")
    if "/" not in spec:
        raise UserError(no_such(spec, [bundled_target()], "model"))
    name, revision = split(spec)
    parts = [*name.split("/"), *(["?"] if revision is None and "@" in spec else [])]
    if not all(part.strip(".?") for part in parts) or " " in spec:
        raise UserError(f"{spec!r} is neither a bundled model, a folder, nor a Hub id.")
    return spec


def _folder(spec: str) -> Path | None:
    """A bundled model's folder, or one of this machine."""
    places = (models_folder() / spec, Path(spec).expanduser())
    return next((path for path in places if path.is_dir()), None)


def known_drafters() -> list[str]:
    """The names that drafters have without being loaded: bundled ones, and those of no files."""
    infos = bundled_drafters()
    found = [info.name for info in infos]
    more = ["eagle"] if "eagle2" in found and "eagle" not in found else []
    auto = [AUTO] if any(info.method == "moa" for info in infos) else []
    return [*found, *more, *auto, *WITHOUT_WEIGHTS]


def drafter_name(spec: str) -> str:
    """A drafter's one name: see `names.matched`; folders and Hub ids stay as they are. UserError,
    with the names there are, for anything else."""
    known = known_drafters()
    if found := matched(spec, known):
        return found
    if _folder(spec) or "/" in spec or spec.startswith((".", "~")):
        return spec
    raise UserError(no_such(spec, known, "drafter"))


def pick_device(device: str) -> torch.device:
    """auto: a GPU if there is one. UserError for a device this machine lacks."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(f"There is no device {device!r} on this machine.") from None
    return chosen


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """auto: bfloat16 on a GPU; float32 elsewhere, which reproduces plain decoding to the token."""
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in DTYPES:
        raise UserError(f"Unknown dtype {dtype!r}: choose from auto, {', '.join(DTYPES)}.")
    return DTYPES[dtype]


def load_target(
    spec: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    plan: Plan | None = None,
) -> Target:
    """Load a target: a bundled name (None: the bundled one), a folder, or a Hub id or id@revision.

    Before its weights are downloaded or read it is made sure that they fit: `need` of what comes
    back says what was expected.
    """
    plan = plan or Plan()
    place = locate(spec or bundled_target())
    where = pick_device(device)
    wanted = pick_dtype(dtype, where)
    folder = place if isinstance(place, Path) else fetch_config(place)
    read_config(folder)  # a clear word about what is missing, before transformers' own
    name = place.name if isinstance(place, Path) else short_name(place)
    drafters = [
        stored(found, pinned(one)) for one in plan.drafters if (found := drafter_folder(one, plan))
    ]
    need = check_room(name, config_of(folder), wanted, where, plan, drafters)
    if folder.parent != models_folder():
        plan.report(f"{name} will need {need}.")
    if not isinstance(place, Path):
        folder = fetch_weights(place, plan.report)
        plan.report(f"Loading {name}.")
    try:
        model = read_model(folder, wanted, where, plan, need)
    except UserError:
        raise
    except Exception as error:  # transformers raises many kinds; all mean: not loadable
        raise UserError(
            f"The target {spec or place} cannot be loaded: {first_line(error)}"
        ) from error
    target = Target(model, _tokenizer(folder), name, need)
    target.graphs = not plan.eager
    target.drafts = wanted_drafts(plan.drafts, dtype if bundled(folder) else "float32")
    if plan.drafts == "int8" and (target.device.type != "cpu" or target.dtype != torch.float32):
        raise UserError("Drafts in int8 need a float32 target on a processor: leave out --drafts.")
    target.eos_ids = _eos_ids(target)
    return accelerate(target)


def bundled(folder: Path) -> bool:
    """Whether a model came with the program."""
    return folder.resolve().parent == models_folder().resolve()


def _accelerated(drafter: Drafter, target: Target, ours: bool) -> Drafter:
    """The same drafter in the precision that was asked for. UserError if int8 cannot be.

    ours  whether it is bundled: then drafts are in int8, unless another precision was asked for
    """
    asked = target.drafts
    quick = accelerate_drafter(drafter, target, asked == "int8" or (ours and asked == "auto"))
    if asked == "int8" and quick.precision != "int8":
        raise UserError(f"{drafter.name} has no form for drafts in int8: leave out --drafts.")
    return quick


def drafter_folder(spec: str, plan: Plan) -> Path | None:
    """Where a drafter's files are, downloaded if need be; None for one that has no files."""
    spec = drafter_name(spec)
    if spec in WITHOUT_WEIGHTS or spec == AUTO:
        return None
    place = locate({"eagle": "eagle2"}.get(spec, spec))
    return place if isinstance(place, Path) else fetch_weights(place, plan.report, pinned(place))


def load_drafter(spec: str | None, target: Target, tli: int | None = None) -> Drafter:
    """Load a drafter for a target: a bundled name, a folder or a Hub id.

    None: the bundled MoA drafter, for TLI N if that is given. Those `WITHOUT_WEIGHTS` have no
    files; "eagle" is the bundled EAGLE-2 head with the first EAGLE's fixed tree, "moa-auto" all
    bundled MoA drafters, one of which is chosen for each cycle.
    """
    spec = spec and drafter_name(spec)
    if spec in WITHOUT_WEIGHTS:
        if tli:
            raise UserError("Without a drafter there is no TLI: leave out --tli or name a drafter.")
        return WITHOUT_WEIGHTS[spec]()
    if spec == "eagle" and not _folder(spec):
        return first_eagle("eagle2", target, tli)
    if spec == AUTO:
        return _auto(target, tli)
    place = locate(spec or _bundled_moa(tli))
    pickles = not isinstance(place, Path) and pinned(place)
    folder = place if isinstance(place, Path) else fetch_weights(place, pickles=pickles)
    name = folder.name if isinstance(place, Path) else short_name(place)
    config = read_config(folder)
    drafter: Drafter
    if "drafter" not in config and _whole_model(folder):
        drafter = whole_model(folder, target, name)
        check_tokenizer(_tokenizer(folder), target, name)
    else:
        drafter = build_drafter(config, read_tensors(folder, pickles), target, tli, name)
    return _accelerated(drafter, target, bundled(folder))


def first_eagle(spec: str, target: Target, tli: int | None = None) -> EagleDrafter:
    """An EAGLE head with the first EAGLE's tree of fixed shape."""
    eagle = load_drafter(spec, target, tli)
    if not isinstance(eagle, EagleDrafter):
        raise UserError(f"{spec} is no EAGLE head: it cannot draft as the first EAGLE does.")
    eagle.name, eagle.static = "eagle", True
    return eagle


def layers_needed(spec: str | None, tli: int | None = None) -> int:
    """How many of the target's last layers a drafter uses, before any target is there."""
    if tli is not None:
        return tli
    known = {info.name: info.tli for info in bundled_drafters()}
    spec = spec and drafter_name(spec)
    if spec in known:
        return known[spec]
    if spec is None:
        return known[_bundled_moa(None)]
    if spec in (*WITHOUT_WEIGHTS, AUTO, "eagle"):
        return 0
    place = locate(spec)
    config = read_config(place if isinstance(place, Path) else fetch_config(place))
    return int(whole(mapping(config, "drafter", spec), "tli", 0, spec, 0))


def _whole_model(folder: Path) -> bool:
    """Whether a folder holds a language model with embeddings of its own: no drafter's head."""
    if (folder / "model.safetensors.index.json").exists():
        return True
    path = folder / "model.safetensors"
    try:
        with safe_open(path, framework="pt") as file:
            return "model.layers.0.self_attn.q_proj.weight" in file.keys()  # noqa: SIM118
    except (OSError, SafetensorError):
        return False  # read_tensors says what is wrong with it


def _auto(target: Target, tli: int | None) -> AutoDrafter:
    """The bundled MoA drafters together. UserError if there is none, or if an N was given."""
    if tli is not None:
        raise UserError("moa-auto chooses N itself: leave out --tli, or name one drafter.")
    loaded = [load_drafter(name, target) for name in _stops().values()]
    return AutoDrafter([one for one in loaded if isinstance(one, MoADrafter)])


def _stops() -> dict[int, str]:
    """The bundled MoA drafter for each N there is."""
    return {info.tli: info.name for info in bundled_drafters() if info.method == "moa"}


def _bundled_moa(tli: int | None) -> str:
    """The bundled MoA drafter for an N. UserError, naming the ones there are, if it has none."""
    stops = _stops()
    if tli is None:
        names = list(stops.values())
        if not names:
            raise UserError(f"There is no bundled drafter in {models_folder()}: name one.")
        return DEFAULT_DRAFTER if DEFAULT_DRAFTER in names else names[0]
    if tli not in stops:
        raise UserError(untrained(tli, stops))
    return stops[tli]


def _tokenizer(place: Path | str) -> PreTrainedTokenizerBase | None:
    """The tokenizer beside a target; None where there is none, as for bare token-id models."""
    if isinstance(place, Path) and not any(place.glob("tokenizer*")):
        return None
    try:
        return AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    except Exception as error:
        raise UserError(
            f"The tokenizer of {place} cannot be loaded: {first_line(error)}"
        ) from error


def _eos_ids(target: Target) -> tuple[int, ...]:
    """Tokens that end a reply, from the generation config, else from the tokenizer."""
    found = target.model.generation_config.eos_token_id
    if found is None and target.tokenizer is not None:
        found = target.tokenizer.eos_token_id
    if found is None:
        return ()
    return (found,) if isinstance(found, int) else tuple(found)
