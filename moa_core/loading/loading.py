"""How a target's weights come into memory: in which format, on which devices, and if they fit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from moa_core.errors import UserError, first_line
from moa_core.loading.hub import Report, silent
from moa_core.loading.memory import Drafting, Need, estimate, form_name, free_bytes, size
from moa_core.loading.strangers import careful

TALKATIVE = (  # a line for each layer at each call, and one about a faster kernel
    "bitsandbytes.autograd._functions",
    "bitsandbytes.backends.cpu.ops",
)
DRAFTS = ("auto", "int8", "float32")  # precisions that drafts may have
DeviceMap = str | dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """How to load a target.

    bits        4 or 8: its linear layers as NF4 or 8-bit integers, by bitsandbytes; None: as it is
    device_map  "auto", or accelerate's own: layers over several GPUs, main memory and disk
    drafters    names, folders or Hub ids that will be loaded beside it: their memory counts
    report      told how far downloads are
    eager       no CUDA graphs
    drafts      int8: weights in eight bits; float32; auto: int8 where target and drafter are
                both bundled and no dtype was named
    """

    bits: int | None = None
    device_map: DeviceMap | None = None
    drafters: tuple[str, ...] = ()
    report: Report = silent
    eager: bool = False
    drafts: str = "auto"

    def __post_init__(self) -> None:
        if self.bits not in (None, 4, 8):
            raise UserError(f"Weights can be loaded in 4 or 8 bits, not in {self.bits}.")
        if self.drafts not in DRAFTS:
            raise UserError(f"Drafts are {', '.join(DRAFTS)}, not {self.drafts!r}.")


def wanted_drafts(asked: str, dtype: str) -> str:
    """The precision of drafts that was asked for: whoever names a dtype gets drafts in float32."""
    return asked if asked != "auto" or dtype == "auto" else "float32"


def read_model(
    folder: Path, dtype: torch.dtype, device: torch.device, plan: Plan, need: Need
) -> PreTrainedModel:
    """The model in a folder, where the plan wants it. Whatever it raises means: not loadable."""
    options: dict[str, Any] = {"dtype": dtype, **careful()}
    if plan.bits:
        options["quantization_config"] = _quantised(plan.bits, dtype)
    if plan.device_map is not None:
        options["device_map"] = plan.device_map
        if plan.device_map == "auto" and torch.cuda.is_available():
            cards = [torch.cuda.mem_get_info(card)[0] for card in range(torch.cuda.device_count())]
            options["max_memory"] = shares(cards, free_bytes(torch.device("cpu")), need)
    elif plan.bits or device.type != "cpu":  # straight to the device, not by way of main memory
        options["device_map"] = {"": device}
    model = AutoModelForCausalLM.from_pretrained(folder, **options)
    return model.requires_grad_(False)


def _quantised(bits: int, dtype: torch.dtype) -> Any:
    """Settings for bitsandbytes. UserError where it is not installed."""
    from transformers import BitsAndBytesConfig

    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        import bitsandbytes  # noqa: F401
    except Exception as error:  # also where its library does not suit the machine
        raise UserError(
            f"--load-in-{bits}bit needs bitsandbytes, which is not to be had here "
            f"({first_line(error)}): pip install bitsandbytes, or leave the option out."
        ) from None
    if bits == 4:
        return BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=dtype
        )
    # No outliers apart: then what a row becomes does not depend on the rows beside it.
    return BitsAndBytesConfig(load_in_8bit=True, llm_int8_threshold=0.0)


def numbers(model: PreTrainedModel) -> int:
    """How many parameters a model has; in 4 bits two share a byte."""
    return sum(
        weight.numel() * (2 if type(weight).__name__ == "Params4bit" else 1)
        for weight in model.parameters()
    )


def shares(cards: Sequence[int], main: int, need: Need) -> dict[int | str, int]:
    """Most bytes of weights for each GPU, and for main memory: the rest is for what decodes.

    cards, main  free bytes. Any GPU may be the one that drafts; K and V lie with their layers.
    """
    kept = need.drafters + need.working + need.cache // max(len(cards), 1)
    found: dict[int | str, int] = {card: max(free - kept, 0) for card, free in enumerate(cards)}
    return {**found, "cpu": main}


def plain_weights(model: PreTrainedModel, wanted: Callable[[str], bool]) -> dict[str, Tensor]:
    """Tensors by name, as if the model lay in one piece and in its float format.

    A quantised layer's weights come as the numbers that it computes with, one on disk is read.
    """
    if not (hasattr(model, "_hf_hook") or getattr(model, "is_quantized", False)):
        return {name: tensor for name, tensor in model.state_dict().items() if wanted(name)}
    from accelerate.utils import align_module_device

    found = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        names = [name for name, _ in module.named_parameters(recurse=False)]
        if any(wanted(f"{prefix}.{name}") for name in names):
            with align_module_device(module, torch.device("cpu")):
                for name in names:
                    found[f"{prefix}.{name}"] = _unpacked(module, name, model.dtype)
    return {name: tensor for name, tensor in found.items() if wanted(name)}


def _unpacked(module: nn.Module, name: str, dtype: torch.dtype) -> Tensor:
    """A module's tensor, copied, in a float format."""
    packed: Any = getattr(module, name)  # of a class of bitsandbytes, maybe
    tensor: Tensor = packed.data
    if type(module).__name__ == "Linear4bit" and name == "weight":
        from bitsandbytes.functional import dequantize_4bit

        return dequantize_4bit(tensor, packed.quant_state).to(dtype)
    if type(module).__name__ == "Linear8bitLt" and name == "weight":
        scales: Tensor = packed.SCB if packed.SCB is not None else cast(Any, module).state.SCB
        return (tensor.float() * scales[:, None] / 127).to(dtype)
    return tensor.clone()


def check_room(
    name: str,
    config: PretrainedConfig,
    dtype: torch.dtype,
    device: torch.device,
    plan: Plan,
    drafters: Sequence[Drafting] = (),
) -> Need:
    """What will be needed. UserError, naming the shortfall, if the device has less than that."""
    try:
        need = estimate(config, dtype, plan.bits, drafters, on_processor=device.type == "cpu")
    except Exception as error:  # transformers and torch raise many kinds; all mean: no such model
        raise UserError(
            f"{name} has a config.json that makes no model: {first_line(error)}"
        ) from error
    spread = plan.device_map is not None
    free = free_bytes(device, spread, offload=not plan.bits)  # what is packed stays on GPUs
    if need.total <= free or plan.device_map not in (None, "auto"):
        return need  # whoever names devices layer by layer, disk included, knows their sizes
    where = "all devices together have" if spread else f"{_words(device)} has"
    raise UserError(
        f"{name} does not fit: it needs {need}, and {where} {size(free)} free, "
        f"{size(need.total - free)} too little. {_advice(config, dtype, device, plan, drafters)}"
    )


def _words(device: torch.device) -> str:
    return "this machine" if device.type == "cpu" else f"the device {device}"


def _advice(
    config: PretrainedConfig,
    dtype: torch.dtype,
    device: torch.device,
    plan: Plan,
    drafters: Sequence[Drafting],
) -> str:
    """Which options would make it fit, the nearest to what was asked for first."""
    spread = plan.device_map is not None
    options: list[tuple[str, torch.dtype, int | None, bool]] = []
    if dtype == torch.float32 and plan.bits is None:
        options.append(("--dtype bfloat16", torch.bfloat16, None, spread))
    half = torch.bfloat16 if dtype == torch.float32 else dtype
    for bits in (8, 4):
        if plan.bits is None or bits < plan.bits:
            option = f"--load-in-{bits}bit"
            more = " --dtype bfloat16" if half != dtype else ""
            options.append((option + more, half, bits, spread))
    if device.type == "cuda" and not spread:
        options.append(("--device-map auto", dtype, plan.bits, True))
    fitting = [
        f"{option} ({size(need.total)})"
        for option, form, bits, wide in options
        if (need := estimate(config, form, bits, drafters)).total
        <= free_bytes(device, wide, not bits)
    ]
    if fitting:
        return f"Try {', or '.join(fitting)}."
    smallest = estimate(config, half, 4, drafters)
    return (
        f"No number format makes it fit, {form_name(half, 4)} takes {size(smallest.total)}: take "
        "a smaller target or a larger machine."
    )
