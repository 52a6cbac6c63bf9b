"""Speculative decoding behind transformers' `generate`: what an exported folder runs.

    model.generate(**inputs, custom_generate=FOLDER, trust_remote_code=True)

transformers prepares everything except the loop.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitNormalization,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteriaList,
    StopStringCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation.utils import GenerateDecoderOnlyOutput

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Prefilled, Verified
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target

NOT_WITH_DRAFTS = ("assistant_model", "inputs_embeds", "past_key_values", "position_ids")
EXTRAS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
# Options for finding this file, of which the drafter needs the revision.
HUB = ("revision", "token", "cache_dir", "local_files_only", "force_download")
KEPT = "_moa_kept"  # the attribute of a model that keeps its newest drafter


@dataclass
class DraftedOutput(GenerateDecoderOnlyOutput):
    """What `return_dict_in_generate=True` gives.

    target_calls      forwards of the model, prefill included
    accepted_lengths  tokens gained by each later forward, bonus included, before any cut
    """

    target_calls: int | None = None
    accepted_lengths: list[int] | None = None


def generate(
    model: PreTrainedModel,
    inputs: Tensor | None = None,
    drafter: str | None = None,
    seed: int | None = None,
    tree: dict[str, int] | None = None,
    **options: Any,
) -> Tensor | DraftedOutput:
    """As `model.generate`, with a drafter: the text, greedy or sampled, is the model's own.

    drafter  folder or Hub id; default: where `custom_generate` pointed
    seed     of sampling; default: from torch's generator, so that `set_seed` decides
    tree     depth, breadth and budget, instead of the drafter's own

    UserError, a ValueError, for what cannot be drafted: batches, beams, processors of the logits
    beyond temperature, top-k and top-p.
    """
    if given := [name for name in NOT_WITH_DRAFTS if options.get(name) is not None]:
        raise UserError(f"Drafting does not work with {given[0]}: leave it out.")
    # transformers calls this with its own `custom_generate`, and does not pass it on.
    place = drafter or sys._getframe(1).f_locals.get("custom_generate")  # so no decorator here
    if not isinstance(place, str):
        raise UserError("Say where the drafter's weights are: drafter=FOLDER, or a Hub id.")
    hub = {name: options.pop(name, None) for name in HUB}
    if Path(place).is_dir():
        place = str(Path(place).resolve())  # not a bundled drafter of that name
    elif hub["revision"]:
        place = f"{place}@{hub['revision']}"
    tokenizer, strings = options.pop("tokenizer", None), options.get("stop_strings")
    if tokenizer is not None and strings is not None:  # transformers keeps the tokenizer from us
        ours = StopStringCriteria(tokenizer, options.pop("stop_strings"))
        more = options.get("stopping_criteria") or ()
        options["stopping_criteria"] = StoppingCriteriaList([*more, ours])

    streamer = options.get("streamer")  # it is not passed on to the loop

    def loop(model: PreTrainedModel, input_ids: Tensor, **prepared: Any) -> Tensor | DraftedOutput:
        config = prepared["generation_config"]
        _check(input_ids, prepared.get("attention_mask"), config)
        sampling = sampling_of(config, prepared["logits_processor"], seed)
        training = model.training
        target, loaded = _loaded(model, place)
        shape = replace(loaded.tree, **cast(dict[str, Any], tree or {}))
        settings = Settings(int(config.max_length) - input_ids.shape[1], shape, sampling)
        ids, lengths = input_ids, list[int]()
        for event in decode(target, loaded, input_ids[0].tolist(), settings):
            if not isinstance(event, Prefilled | Verified):
                continue
            lengths += [event.gained] if isinstance(event, Verified) else []
            for token in event.emitted if isinstance(event, Verified) else (event.token,):
                ids = torch.cat([ids, ids.new_tensor([[token]])], 1)
                if streamer is not None:
                    streamer.put(torch.tensor([token]))
                if done := bool(prepared["stopping_criteria"](ids, None).all()):
                    break
            if done:
                break
        model.train(training)
        if streamer is not None:
            streamer.end()
        if not config.return_dict_in_generate:
            return ids
        whole = cast(torch.LongTensor, ids)
        return DraftedOutput(whole, target_calls=len(lengths) + 1, accepted_lengths=lengths)

    # The class's method: a model from a folder like ours has `generate` replaced by this one.
    plain = cast(Any, type(model)).generate
    found: Tensor | DraftedOutput = plain(model, inputs, custom_generate=loop, **options)
    return found


def _check(input_ids: Tensor, mask: Tensor | None, config: GenerationConfig) -> None:
    mode = config.get_generation_mode().value
    if mode not in ("greedy_search", "sample"):
        raise UserError(f"Drafting is for greedy decoding and sampling, not for {mode}.")
    if len(input_ids) != 1:
        raise UserError(f"Drafting takes one sequence at a time, and there are {len(input_ids)}.")
    if mask is not None and not bool(mask.all()):
        raise UserError("The prompt has padding: pass it without.")
    if asked := [name for name in EXTRAS if getattr(config, name, False)]:
        raise UserError(f"Drafting does not keep what {asked[0]} asks for: leave it out.")


def sampling_of(
    config: GenerationConfig, processors: LogitsProcessorList, seed: int | None
) -> Sampling:
    found: dict[str, Any] = {}
    for processor in processors:
        match processor:
            case TemperatureLogitsWarper():
                found["temperature"] = processor.temperature
            case TopKLogitsWarper():
                found["top_k"] = processor.top_k
            case TopPLogitsWarper():
                found["top_p"] = processor.top_p
            case LogitNormalization():
                pass  # changes no choice
            case _:
                name = type(processor).__name__
                raise UserError(
                    f"Drafting does not work with {name}: unset the option that asks for it."
                )
    if not config.do_sample:
        return Sampling()
    drawn = int(torch.randint(2**62, ()).item()) if seed is None else seed
    return Sampling(**{"temperature": 1.0, **found, "seed": drawn})


def _loaded(model: PreTrainedModel, place: str) -> tuple[Target, Drafter]:
    """The model as a target, and its drafter, both kept on the model for the next call."""
    key = place, model.device, model.dtype
    kept = getattr(model, KEPT, None)
    if kept is None or kept[0] != key:
        target = Target(model, name=model.name_or_path or "")
        target.drafts = "float32"
        kept = key, target, load_drafter(place, target)
        setattr(model, KEPT, kept)
    model.eval()
    model.set_attn_implementation("sdpa")
    return kept[1], kept[2]
