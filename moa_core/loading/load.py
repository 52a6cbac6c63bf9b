"""Loads targets and drafters by name, folder, file or Hub id."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
)

from moa_core.drafters.base import Drafter, Stepwise
from moa_core.drafters.lookup import WithLookup
from moa_core.drafters.names import LOOKUP
from moa_core.drafters.registry import without_weights
from moa_core.engine import accelerate, accelerate_drafter
from moa_core.errors import UserError, first_line, saying
from moa_core.loading import catalog, gguf
from moa_core.loading.drafter_files import build_drafter, check_tokenizer, whole_model
from moa_core.loading.hub import Report, short_name, silent
from moa_core.loading.memory import Drafting, check_room, stored
from moa_core.loading.presets import pinned
from moa_core.model.target import Target
from moa_core.untrusted import Whole, careful, read_config, read_tensors, value

DTYPES = {
    "float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16,
    "int8": torch.float32,  # of the weights that are rounded, and of all that drafters read
}  # fmt: skip
DRAFTS = ("auto", "int8", "float32")  # precisions of drafts


def pick_device(device: str) -> torch.device:
    """auto: a GPU if there is one. UserError for a device this machine lacks."""
    if device == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        chosen = torch.device(device)
        torch.zeros(1, device=chosen).item()  # of "meta" there is nothing to read
    except (RuntimeError, AssertionError, NotImplementedError):
        raise UserError(
            f"There is no device {device!r} on this machine: auto takes the best there is."
        ) from None
    return chosen


def pick_dtype(dtype: str, device: torch.device) -> torch.dtype:
    """auto: bfloat16 on a GPU, else float32, which reproduces plain decoding token for token."""
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    if dtype not in DTYPES:
        raise UserError(f"Unknown dtype {dtype!r}: choose from auto, {', '.join(DTYPES)}.")
    return DTYPES[dtype]


def wanted_drafts(asked: str, dtype: str) -> str:
    """The precision of drafts: float32 if a dtype was named. UserError for an unknown one."""
    if asked not in DRAFTS:
        raise UserError(f"Drafts are {', '.join(DRAFTS)}, not {asked!r}.")
    return asked if asked != "auto" or dtype in ("auto", "int8") else "float32"


def load_target(
    spec: str | Path | None = None, dtype: str = "auto", device: str = "auto", *,
    bits: int | None = None, drafts: str = "auto", drafters: Sequence[str] = (),
    report: Report = silent,
) -> Target:  # fmt: skip
    """Load a target: None or smollm2-135m, a folder, a GGUF file, or a Hub id or id@revision.

    dtype     int8: its matrices in 8 bits as an ONNX graph, on a CPU
    bits      4 or 8: its linear layers as NF4 or 8-bit integers, by bitsandbytes; None: unchanged
    drafts    int8: 8-bit weights; float32; auto: int8 for a float32 target on a CPU, unless a
              dtype was named
    drafters  names, folders or Hub ids to be loaded with it: their memory counts
    report    gets a sentence about the progress of downloads

    UserError, before its weights are downloaded or read, if they do not fit into memory. The
    target's `need` is the estimate.
    """
    if bits not in (None, 4, 8):
        raise UserError(f"Weights can be loaded in 4 or 8 bits, not in {bits}.")
    precision = wanted_drafts(drafts, dtype)
    place = catalog.locate(None if spec is None else str(spec))
    where = pick_device(device)
    wanted = pick_dtype(dtype, where)
    if dtype == "int8" and (where.type != "cpu" or bits):
        raise UserError("int8 runs on a CPU, without --load-in-4bit or --load-in-8bit.")
    folder = catalog.config_folder(str(place), report)
    config = config_of(folder)
    name = _called(place)
    need = check_room(name, config, wanted, where, bits, drafters_beside(drafters, report))
    need = replace(need, form=dtype) if dtype == "int8" else need
    if spec is not None:
        report(f"{name} will need {need}.")
    if catalog.on_hub(place):
        folder = catalog.files_of(place, report)
        report(f"Loading {name}.")
    with saying(f"The target {spec or place} cannot be loaded"):
        options = careful() | _options(wanted, where, bits)
        model = AutoModelForCausalLM.from_pretrained(folder, **options)
    target = Target(model.requires_grad_(False), tokenizer_in(folder), name, need)
    target.eos_ids, target.drafts = _eos_ids(target), precision
    if drafts == "int8" and (target.device.type != "cpu" or target.dtype != torch.float32):
        raise UserError("Drafts in int8 need a float32 target on a CPU: leave out --drafts.")
    return accelerate(target, dtype == "int8")


def _called(place: Path | str) -> str:
    if isinstance(place, Path):
        return place.stem if place.suffix == gguf.SUFFIX else place.name
    return short_name(place)


def _options(dtype: torch.dtype, device: torch.device, bits: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"dtype": dtype}
    if bits:
        options["quantization_config"] = _quantised(bits, dtype)
    if bits or device.type != "cpu":  # straight to the device, not through main memory
        options["device_map"] = {"": device}
    return options


def _quantised(bits: int, dtype: torch.dtype) -> Any:
    """Settings for bitsandbytes. UserError if it is not installed."""
    from transformers import BitsAndBytesConfig

    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)  # else a line per layer and call
    try:
        import bitsandbytes  # noqa: F401
    except Exception as error:  # also if its library does not suit the machine
        raise UserError(
            f"--load-in-{bits}bit needs bitsandbytes, which cannot be imported here "
            f"({first_line(error)}): pip install bitsandbytes, or leave the option out."
        ) from None
    if bits == 4:
        return BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
        )
    # Without separate outliers, the result of a row does not depend on other rows.
    return BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)


def tokenizer_in(folder: Path) -> Any:
    """The tokenizer of a model's folder; None if there is none, as for models of bare token ids."""
    if not any(folder.glob("tokenizer*")):
        return None
    with saying(f"The tokenizer of {folder} cannot be loaded"):
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def _eos_ids(target: Target) -> tuple[int, ...]:
    """Tokens that end a reply, from the generation config, else from the tokenizer."""
    found = target.model.generation_config.eos_token_id
    if found is None and target.tokenizer is not None:
        found = target.tokenizer.eos_token_id
    ids = () if found is None else (found,) if isinstance(found, int) else tuple(found)
    if not all(isinstance(one, int) for one in ids):
        raise UserError(f"{target.name} has a generation config whose eos_token_id is {found!r}.")
    return ids


def plain_weights(model: PreTrainedModel, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """Tensors by name in the model's float format; quantised weights are unpacked."""
    if not getattr(model, "is_quantized", False):
        return {name: tensor for name, tensor in model.state_dict().items() if wanted(name)}
    from transformers.integrations.bitsandbytes import dequantize_bnb_weight

    return {
        f"{prefix}.{name}": dequantize_bnb_weight(weight, getattr(module, "state", None))
        .detach()
        .to(model.dtype)
        for prefix, module in model.named_modules(remove_duplicate=False)
        for name, weight in module.named_parameters(recurse=False)
        if wanted(f"{prefix}.{name}")
    }


def load_drafter(spec: str | Path | None, target: Target, tli: int | None = None) -> Drafter:
    """Load a drafter for a target: a bundled name, a folder or a Hub id; with +ngram behind it, a
    drafter whose tree also has what n-gram lookup finds.

    None: the default target's MoA drafter.

    tli  the target's last layers that a MoA drafter reuses, where its files do not name them
    """
    spec = catalog.default_drafter() if spec is None else catalog.drafter_name(str(spec))
    if spec.endswith(LOOKUP):
        return _with_lookup(load_drafter(spec.removesuffix(LOOKUP), target, tli))
    if spec in without_weights() and not catalog.folder_of(spec):
        return without_weights()[spec]()
    place = catalog.locate(spec)
    folder, name = catalog.files_of(place), _called(place)
    config = read_config(folder)
    drafter: Drafter
    if "drafter" not in config and is_whole_model(folder):
        drafter = whole_model(folder, target, name)
        check_tokenizer(tokenizer_in(folder), target, name)
    else:
        tensors = read_tensors(folder, pinned(place))
        drafter = build_drafter(config, tensors, target, tli, name)
    drafter = accelerate_drafter(drafter, target, int8=target.drafts != "float32")
    if target.drafts == "int8" and drafter.precision != "int8":
        raise UserError(f"{drafter.name} cannot draft in int8: leave out --drafts.")
    return drafter


def load_method(
    models: catalog.Installed, method: str, target: Target,
    loaded: Mapping[str, Drafter] | None = None,
) -> Drafter:  # fmt: skip
    """Load one of a target's drafters by its method.

    Also "moa-n0+ngram", with lookup, and those without weights.

    loaded  drafters by method, whose weights others share
    """
    if make := without_weights().get(method):
        return make()
    name = method.removesuffix(LOOKUP)
    info, there = models.drafters[name], (loaded or {}).get(name)
    drafter = there.fork() if there else load_drafter(info.name, target)
    drafter.tree = info.tree  # published drafters do not name theirs
    return _with_lookup(drafter) if method.endswith(LOOKUP) else drafter


def _with_lookup(drafter: Drafter) -> Drafter:
    if not isinstance(drafter, Stepwise):
        raise UserError(f"{drafter.name} cannot be joined with lookup: MoA and EAGLE can.")
    return WithLookup(drafter)


def drafters_beside(specs: Sequence[str], report: Report = silent) -> list[Drafting]:
    """The memory that drafters need, from their files, which are downloaded if necessary."""
    names = [catalog.drafter_name(spec).removesuffix(LOOKUP) for spec in specs]
    places = [catalog.locate(name) for name in names if name not in without_weights()]
    return [stored(catalog.files_of(place, report), pinned(place)) for place in places]


def is_whole_model(folder: Path) -> bool:
    """Whether a folder holds a whole language model, with embeddings, and not a drafter's head."""
    if (folder / "model.safetensors.index.json").exists():
        return True
    try:
        with safe_open(folder / "model.safetensors", framework="pt") as file:
            names = {*file.keys()}
            # Some EAGLE-3 heads use the same layer name, but have an `fc`.
            return "model.layers.0.self_attn.q_proj.weight" in names and "fc.weight" not in names
    except (OSError, SafetensorError):
        return False  # read_tensors says what is wrong with it


def config_of(folder: Path) -> PretrainedConfig:
    """A target's config, from its folder. UserError if it is not a target's."""
    found = read_config(folder)
    if "drafter" in found:
        raise UserError(f"{folder} is a drafter: a target is a whole language model.")
    for key in ("num_hidden_layers", "max_position_embeddings"):
        value(found, key, Whole, str(folder), None)  # a clearer sentence than transformers' own
    with saying(f"{folder} has no config that can be used"):
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    return config
