"""Where the timers go: around the pieces of a decode, put there to measure and taken off after.

Nothing of this is in the way while nobody measures: a seam is a method or function that is replaced
for as long as `timed` lasts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import torch
from torch import nn

from moa_core import tree
from moa_core.bench.profile_graphs import replayed
from moa_core.bench.profile_spans import SYNC, Recorder
from moa_core.cache import KVCache
from moa_core.drafters import eagle, glide, moa
from moa_core.drafters.base import Drafter, Stepwise
from moa_core.layers import DecoderLayer, Rope
from moa_core.native.chains import Chain, Remember
from moa_core.static.cycle import Cycle
from moa_core.target import Target
from moa_core.verifier import Beside

loop = import_module("moa_core.decode")  # the module, not the function


@dataclass(frozen=True)
class Seam:
    """One method of a class, or function of a module, or method of a module of a net.

    kind  phase; level, which also says which one; piece; open, a piece that others may interrupt;
          replay, a piece of a cycle in static shapes; chain, a piece that says its name
    """

    owner: Any
    attribute: str
    kind: str
    name: str = ""


@contextmanager
def timed(recorder: Recorder, target: Target, drafter: Drafter) -> Iterator[None]:
    """While it lasts, decoding with these two tells the recorder who is at work."""
    with ExitStack() as stack:
        for seam in seams(target, drafter):
            stack.enter_context(_replaced(seam, recorder))
        yield


def seams(target: Target, drafter: Drafter) -> list[Seam]:
    """All of them that there are, for a target and a drafter."""
    net = getattr(drafter, "net", None)
    found = [*_phases(drafter), *_common(target), *_target_layers(target), *_net(net)]
    if small := getattr(drafter, "small", None):  # driven like a target
        found.append(Seam(small, "read_layers", "piece", "the net"))
    return [seam for seam in found if hasattr(seam.owner, seam.attribute)]


def _phases(drafter: Drafter) -> list[Seam]:
    kind = type(drafter)
    found = [Seam(kind, name, "phase", "draft") for name in ("server_half", "observe", "propose")]
    several = getattr(drafter, "candidates", {})  # moa-auto's
    for each in dict.fromkeys([kind, *map(type, several.values())]):
        if issubclass(each, Stepwise):
            found += [Seam(each, name, "level") for name in ("root", "expand")]
    return [
        *found,
        Seam(Beside, "verify", "phase", "verify"),
        Seam(loop, "walk", "phase", "accept"),
        Seam(Beside, "keep", "phase", "cache"),
    ]


def _common(target: Target) -> list[Seam]:
    """What every method may use. Forks copy targets, so theirs are methods of the class."""
    from moa_core import verifier

    masks = [(module, "rows_mask") for module in (moa, eagle, glide)]
    return [
        Seam(target.head, "forward", "piece", "head"),
        Seam(type(target), "draft_logits", "piece", "head"),
        Seam(target.embed, "forward", "piece", "embeddings"),
        Seam(target.decoder.norm, "forward", "piece", "last norm"),
        Seam(target.decoder.rotary_emb, "forward", "piece", "RoPE and masks"),
        *(Seam(Rope, name, "piece", "RoPE and masks") for name in ("__call__", "span")),
        Seam(tree.DraftTree, "ancestors", "piece", "RoPE and masks"),
        *(Seam(module, name, "piece", "RoPE and masks") for module, name in masks),
        Seam(tree, "best_children", "piece", "top-k"),
        Seam(tree, "_rerank", "piece", "rerank"),
        Seam(verifier, "choose", "piece", "choice"),
        *(Seam(KVCache, name, "piece", "cache") for name in ("append", "keep")),
        Seam(Cycle, "play", "replay"),
        Seam(Chain, "__call__", "chain"),
        Seam(Remember, "remember", "piece", "LSA"),  # with CA's K and V
        Seam(type(target), "rows", "piece", "embeddings"),
        *(Seam(torch.Tensor, name, "piece", SYNC) for name in ("tolist", "item", "cpu")),
    ]


def _target_layers(target: Target) -> list[Seam]:
    """transformers' layers, and where drafts run them in our form, those."""
    found = [Seam(moa.MoADrafter, "_reuse", "piece", "TLI layers")]
    own = getattr(target, "_own", None)
    for layer in [*target.layers, *(own[1] if own else [])]:
        found.append(Seam(layer, "forward", "open", "layers: the rest"))
        attention: Any = getattr(layer, "self_attn", None)
        mlp = getattr(layer, "mlp", None)
        parts = [(attention, "forward", "attention"), (mlp, "forward", "MLP")]
        if isinstance(layer, DecoderLayer):
            parts += [(attention, "all_three", "attention"), (attention.out, "added", "attention")]
        found += [
            Seam(part, name, "piece", f"layers: {words}")
            for part, name, words in parts
            if part is not None
        ]
    return found


def _net(net: nn.Module | None) -> list[Seam]:
    """The drafter's own parts: MoA's by their names in the paper, any other's child by child."""
    if isinstance(net, nn.ModuleList):
        return [seam for each in net for seam in _net(each)]
    if isinstance(net, moa.MoANet):
        return [
            Seam(moa, "token_vectors", "piece", "LSA"),
            Seam(net, "memory", "piece", "LSA"),
            Seam(net.cross_attention, "memorise", "piece", "CA's K and V"),
            Seam(net.cross_attention, "attend", "piece", "CA"),
            *([Seam(net.self_attention, "forward", "piece", "SA")] if net.config.sa else []),
        ]
    if net is not None and _has_forward(net):
        return [Seam(net, "forward", "piece", "the net")]
    return [
        Seam(part, "forward", "piece", name) for name, part in _children(net) if _has_forward(part)
    ]


def _children(net: nn.Module | None) -> Iterator[tuple[str, nn.Module]]:
    for name, part in net.named_children() if isinstance(net, nn.Module) else ():
        if isinstance(part, nn.ModuleList | nn.ModuleDict):
            yield from ((f"{name}.{inner}", one) for inner, one in part.named_children())
        else:
            yield name, part


def _has_forward(part: nn.Module) -> bool:
    return type(part).forward is not nn.Module.forward and not isinstance(
        part, nn.ModuleList | nn.ModuleDict
    )


@contextmanager
def _replaced(seam: Seam, recorder: Recorder) -> Iterator[None]:
    """An attribute of a class, module or object, wrapped for a while; then it is as it was."""
    own = vars(seam.owner)
    was_own, before = seam.attribute in own, own.get(seam.attribute)
    call = getattr(seam.owner, seam.attribute)
    setattr(seam.owner, seam.attribute, _wrapped(call, _beginning(seam, recorder), recorder.end))
    try:
        yield
    finally:
        if was_own:
            setattr(seam.owner, seam.attribute, before)
        else:
            delattr(seam.owner, seam.attribute)


def _wrapped(
    call: Callable[..., Any], begin: Callable[..., bool], end: Callable[[], None]
) -> Callable[..., Any]:
    @functools.wraps(call)
    def timed_call(*args: Any, **kwargs: Any) -> Any:
        began = begin(*args)
        try:
            return call(*args, **kwargs)
        finally:
            if began:
                end()

    return timed_call


def _beginning(seam: Seam, recorder: Recorder) -> Callable[..., bool]:
    """What a call of a seam tells the recorder, given the call's arguments."""
    name, closed = seam.name, seam.kind == "piece"
    match seam.kind:
        case "phase":
            return lambda *args: recorder.begin_phase(name)
        case "level":  # `root` is asked with a token, `expand` with a frontier of some level
            return lambda *args: recorder.begin_level(getattr(args[-1], "level", 0))
        case "chain":
            return lambda *args: recorder.begin(args[0].name, True)
        case "replay":  # asked with a cycle, a key and what is captured
            return lambda *args: recorder.begin_replay(replayed(args[-2]))
    return lambda *args: recorder.begin(name, closed)
