"""Tiny random models for tests: made from a seed in milliseconds, no files, no network."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verify import first_difference
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.lookup import WithLookup
from moa_core.drafters.moa import MoADrafter, MoANet
from moa_core.drafters.names import LOOKUP
from moa_core.drafters.registry import without_weights
from moa_core.loading.drafter_files import save_drafter
from moa_core.model.layers import DecoderLayer
from moa_core.model.target import Target
from moa_core.text import record_words
from moa_core.train.batches import Batch, whole_batch
from moa_core.train.drafters import fresh
from moa_core.train.losses import MoATrainee
from moa_core.train.masks import Masks, on_policy
from moa_core.train.teacher import Lesson

# Qwen2 has biases on Q, K and V; Qwen3 norms on Q and K, and a head size of its own.
FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
# Two siblings, a long branch beside a short one, the same token twice.
BUSH = DraftTree(
    (11, 3, 40, 8, 3, 17, 2, 50), (-1, 0, 0, 1, 1, 3, 2, 5), (0, 1, 1, 2, 2, 3, 2, 4), (0.0,) * 8
)
YARN = {  # scales cos and sin, not their angles alone
    "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 64,
}  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {  # of targets, where a text could go wrong
    "llama": {},
    "llama, tied embeddings and a vocabulary of 40": {
        "tie_word_embeddings": True, "vocab_size": 40, "scale": 2.0,
    },
    "llama, all biases": {"attention_bias": True, "mlp_bias": True},
    "llama, 6 heads on 3": {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3},
    "llama, 5 heads on 1": {"hidden_size": 40, "num_attention_heads": 5, "num_key_value_heads": 1},
    "llama, scaled rope": {"rope_parameters": {
        "rope_type": "llama3", "rope_theta": 10_000.0, "factor": 4.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
    }},
    "qwen2": {"family": "qwen2"},
    "qwen2, 14 heads on 2": {"family": "qwen2", "hidden_size": 56, "num_attention_heads": 14},
    "qwen3": {"family": "qwen3", "head_dim": 12},
    "mistral": {"family": "mistral", "sliding_window": None},
    "mistral, a window of 90": {"family": "mistral", "sliding_window": 90},
}  # fmt: skip


def tiny_target(seed: int = 0, scale: float = 6.0, family: str = "llama", **sizes: Any) -> Target:
    """A random model whose choices are far from ties. scale: of its head, for peaks."""
    defaults = {
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
        "num_hidden_layers": sizes.pop("layers", 3), "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 256, "bos_token_id": None,
        "eos_token_id": None, "tie_word_embeddings": False, "attn_implementation": "sdpa",
    }  # fmt: skip
    torch.manual_seed(seed)
    config = AutoConfig.for_model(family, **{**defaults, **sizes})
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim > 1:
                weight.normal_(std=0.12)
            elif "norm" in name:
                weight.copy_(1 + 0.1 * torch.randn_like(weight))
            else:
                weight.normal_(std=0.3)
        model.get_input_embeddings().weight.normal_(std=1.0)
        model.lm_head.weight.normal_(std=scale / config.hidden_size**0.5)
    target = Target(model.eval().requires_grad_(False), name=f"tiny-{family}-{seed}")
    target.drafts = "float32"
    return target


def useful(method: str, target: Target, whisper: float = 0.01) -> Drafter:
    """An untrained drafter that is often right: its layers pass on what they are given, MoA's the
    token embedding, EAGLE's that and a little of the feature.

    whisper  how much the layers still say, so that every part matters
    """
    drafter = fresh(method, target, seed=0)
    with torch.no_grad():
        if isinstance(drafter, MoADrafter):
            _pass_on(drafter.net.self_attention, whisper)
            _pass_on(drafter.net.cross_attention, whisper)
        elif isinstance(drafter, EagleDrafter):
            _pass_on(drafter.net.layers[0], whisper)
            embedding = torch.eye(target.config.hidden_size)
            drafter.net.fc.weight.copy_(torch.cat([embedding, 0.3 * embedding], 1))
    return drafter


def _pass_on(layer: DecoderLayer, whisper: float) -> None:
    layer.self_attn.o_proj.weight.mul_(whisper)
    layer.mlp.down_proj.weight.mul_(whisper)


def plain_greedy(target: Target, prompt: list[int], count: int) -> list[int]:
    ids = torch.tensor([prompt], device=target.device)
    output = target.model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, do_sample=False,
        eos_token_id=list(target.eos_ids) or None, pad_token_id=0,
    )  # fmt: skip
    return output[0, len(prompt) :].tolist()


@torch.inference_mode()
def gap_to(
    target: Target, prompt: Sequence[int], ours: Sequence[int], plain: Sequence[int]
) -> float | None:
    """The logit of plain decoding's first token that is not ours, minus that of ours: near 0,
    rounding decided a tie. None if one text is a prefix of the other."""
    at = first_difference(ours, plain)
    if at is None:
        return None
    text = [*prompt, *plain[:at]]
    logits, _ = target.fork().prefill(text, len(text))
    return float(logits[plain[at]].float() - logits[ours[at]].float())


def variant(name: str, target: Target) -> Drafter:
    """A method's drafter, untrained; also MoA in the forms that only files of the authors have."""
    forms: dict[str, Any] = {"mean of LSA": {"pool": "mean"}, "without LSA": {"lsa": None}}
    if name not in forms:
        return fresh(name, target, seed=0)
    torch.manual_seed(0)
    net = MoANet(replace(MoADrafter.fresh_sizes(target), **forms[name]))
    return MoADrafter(net.requires_grad_(False), target)


def drafter_of(method: str, target: Target) -> Drafter:
    """Any method's drafter, untrained; those that can be are often right."""
    if method.endswith(LOOKUP):
        return WithLookup(drafter_of(method.removesuffix(LOOKUP), target))
    if method in without_weights():
        return without_weights()[method]()
    if method in ("eagle3", "tandem", "independent"):
        return fresh(method, target, seed=1)
    if method == "medusa":
        medusa = fresh(method, target, seed=1)
        torch.manual_seed(2)
        with torch.no_grad():
            for weight in medusa.net.parameters():  # which start at zero
                weight.normal_(std=0.1)
        return medusa
    return useful(method, target)


def traced(target: Target, drafter: Drafter | str, prompt: Sequence[int], **settings: Any) -> Trace:
    """A run, by a drafter or the name of a method."""
    made = drafter_of(drafter, target) if isinstance(drafter, str) else drafter
    return Trace(events=list(decode(target, made, prompt, Settings(**settings))))


def lossless(
    target: Target, drafter: Drafter | str, prompt: list[int], count: int, **settings: Any
) -> Trace:
    """A run of `count` tokens, which are the target's own."""
    trace = traced(target, drafter, prompt, max_new_tokens=count, **settings)
    assert trace.output_ids == plain_greedy(target, prompt, count)
    return trace


def clocked(
    patch: pytest.MonkeyPatch, costs: dict[tuple[Any, str], float | Callable[[Any], float]]
) -> Callable[[float], float]:
    """The decode loop's clock moves only while a part works. costs: seconds, by where a function is
    and its name; or what gives them for its object. Returns what lets time pass and tells it."""
    now = 0.0

    def passed(seconds: float = 0.0) -> float:
        nonlocal now
        now += seconds
        return now

    def timed(original: Callable[..., Any], cost: Any) -> Callable[..., Any]:
        def worked(*given: Any) -> Any:
            passed(cost(given[0]) if callable(cost) else cost)
            return original(*given)

        return worked

    for (place, name), cost in costs.items():
        patch.setattr(place, name, timed(getattr(place, name), cost))
    patch.setattr("moa_core.decoding.trace.perf_counter", passed)
    return passed


def draft_alike(target: Target, *drafters: Drafter) -> bool:
    """Whether two drafters draft the same trees; sums may be rounded by where weights lie."""
    shape = TreeSettings(3, 3, 9)
    runs = [traced(target, one, [5, 9, 3], max_new_tokens=12, tree=shape) for one in drafters]
    for one, other in zip(*(run.of(Drafted) for run in runs), strict=True):
        assert (one.tree.tokens, one.tree.parents) == (other.tree.tokens, other.tree.parents)
        assert one.tree.log_probs == pytest.approx(other.tree.log_probs, abs=1e-5)
    return True


def check_chain(said: Tensor, tokens: Sequence[int], log_probs: Sequence[float]) -> None:
    """That a chain, root first, was drafted by what is said [n, V] after each of its tokens."""
    found = said.log_softmax(-1)[torch.arange(len(said)), torch.tensor(tokens[1:])].cumsum(0)
    torch.testing.assert_close(found.detach(), torch.tensor(log_probs[1:]), atol=1e-4, rtol=0)


@torch.inference_mode()
def having_read(drafter: Drafter, target: Target, ids: list[int]) -> tuple[Drafter, Tensor]:
    """A fork of a drafter that has observed the prefill of a fork of its target; its logits [V]."""
    drafter, target = drafter.fork(), target.fork()
    drafter.open_server(target, 256)
    drafter.open(target, 256)
    logits, seen = target.prefill(ids, 256)
    drafter.observe(seen.ids, drafter.server_outputs(seen))
    return drafter, logits


def one_reply(ids: Tensor, start: int) -> Batch:
    """Rows of one document each, whose reply begins at a place."""
    places = torch.arange(ids.shape[1]).expand(len(ids), -1)
    return whole_batch(ids, places >= start, torch.zeros_like(ids))


def one_block(batch: Batch) -> Masks:
    """Masks of a draw that puts no boundary behind the first token of the first row's reply."""
    root = int(batch.response[0].long().argmax())
    for seed in range(1000):
        masks = on_policy(batch, torch.Generator().manual_seed(seed), block=(50, 50))
        if bool((masks.ca[0, 0, root:].sum(-1) == root).all()):
            return masks
    raise AssertionError("every draw put a boundary there")


def training_features(trained: MoATrainee, batch: Batch, lesson: Lesson, masks: Masks) -> Tensor:
    """What the head reads in the training forward [B, T, E]."""
    drafter = trained._drafter
    memory = drafter.net.memory(lesson.vectors.flatten(0, 1), drafter.layer_rope)
    memory = memory.unflatten(0, batch.ids.shape)
    rotation = drafter.ca_rope(batch.positions, memory)
    remembered = drafter.net.cross_attention.memorise(memory, rotation)
    return trained.features(batch, lesson, masks, remembered)[0]


BOS, END, PAD = "<|bos|>", "<|end|>", "<|pad|>"
ROLE_TOKENS = ["<|system|>", "<|user|>", "<|assistant|>"]
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('Unknown role: ' + message['role']) }}{% endif %}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def made_tokenizer(texts: Sequence[str], size: int = 280) -> PreTrainedTokenizerFast:
    """A byte-level BPE with a token for each role."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=[BOS, END, PAD, *ROLE_TOKENS], show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
    )  # fmt: skip
    backend.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token=BOS, eos_token=END, pad_token=PAD,
        additional_special_tokens=ROLE_TOKENS, chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
    )  # fmt: skip


@cache
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer of 280 tokens."""
    texts = ["The fox ran home. The cat sat on the mat.", "What is 3 + 4? The answer is 7."] * 5
    return made_tokenizer(texts)


CHATML = (
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe kind.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@cache
def chatml_tokenizer() -> PreTrainedTokenizerFast:
    """The tiny tokenizer, but it speaks as Qwen's do, system message included."""
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(tiny_tokenizer().backend_tokenizer.to_str()),
        eos_token="<|im_end|>", pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"], chat_template=CHATML,
    )  # fmt: skip


def speaking_target(tokenizer: PreTrainedTokenizerFast | None = None, **sizes: Any) -> Target:
    tokenizer = tokenizer or tiny_tokenizer()
    target = tiny_target(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, **sizes)
    target.tokenizer, target.eos_ids = tokenizer, (tokenizer.eos_token_id,)
    return target


@cache
def worded_trace() -> str:
    target = speaking_target()
    drafter, settings = useful("moa-n1", target), Settings(12, TreeSettings(3, 2, 5))
    trace = Trace(about(target, drafter, settings) | {"method": "moa-n1"})
    trace.events += decode(target, drafter, [5, 9, 2], settings)
    record_words(trace, target.tokenizer)
    return trace.to_json()


def save_target(folder: Path, target: Target) -> None:
    target.model.save_pretrained(folder)
    if target.tokenizer is not None:
        target.tokenizer.save_pretrained(folder)


def edit_config(folder: Path, ours: Any = None, **changes: Any) -> None:
    """Change keys of a model's config; None takes one away. ours: keys under "drafter"."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    if ours is not None:
        config["drafter"] |= ours
    path.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def save_pair(folder: Path, methods: Sequence[str], **sizes: Any) -> Path:
    target = tiny_target(vocab_size=61, **sizes)
    save_target(folder / "target", target)
    for method in methods:
        save_drafter(folder / method, useful(method, target), target, {}, torch.float32)
    return folder


def save_bundle(folder: Path, **sizes: Any) -> Target:
    """A folder for MOA_MODELS: target `tiny`, drafters moa-n0, moa-n1 and eagle2."""
    target = speaking_target(**sizes)
    target.name = "tiny"
    save_target(folder / "tiny", target)
    for number, method in enumerate(("moa-n0", "moa-n1", "eagle2")):
        tree = {"depth": 3, "breadth": 2, "budget": 6 + number}
        drafter = useful(method, target)
        save_drafter(folder / method, drafter, target, {"tree": tree}, torch.float32)
    return target
