"""Drafters with weights: reading their files, their configs, and fresh weights."""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor, nn

from moa_core.drafters.base import Drafter
from moa_core.errors import UserError, saying
from moa_core.model.target import Target, parameters
from moa_core.untrusted import Whole, section, value

Net = TypeVar("Net", bound=nn.Module)
Tensors = dict[str, Tensor]
LAYER = ("num_attention_heads", "num_key_value_heads", "intermediate_size")


@dataclass(frozen=True)
class Sizes:
    """Sizes of a decoder layer. inner: width of its feed-forward block."""

    heads: int
    kv_heads: int
    head_dim: int
    inner: int


@dataclass(frozen=True)
class Files:
    """A drafter's config and tensors, which may hold anything.

    Published configs lack most sizes, so they come from the tensors. Our own keys are under
    "drafter".
    """

    name: str
    config: dict[str, Any]
    tensors: Tensors

    @property
    def ours(self) -> dict[str, Any]:
        return section(self.config, "drafter", self.name)

    def value(self, key: str, kind: Any, *default: Any) -> Any:
        """A value of the config, or the default. UserError if it is of another kind."""
        return value(self.config, key, kind, self.name, *default)

    def layer_values(self) -> list[int]:
        """What `layer_keys` writes."""
        return [self.value(key, Whole) for key in LAYER]

    def layer(self, part: str, heads: int) -> Sizes:
        """A layer's sizes, from the rows of its tensors. part: prefix of their names."""
        queries, keys, inner = (
            len(self.tensors[f"{part}.{one}_proj.weight"])
            for one in ("self_attn.q", "self_attn.k", "mlp.gate")
        )
        head = queries // heads
        if queries % heads or not head or keys % head:
            raise ValueError(f"{heads} heads do not fit {queries} rows of {part}")
        return Sizes(heads, keys // head, head, inner)

    def biased(self, prefix: str, parts: Iterable[str]) -> bool:
        """Whether any of these projections has a bias."""
        return any(f"{prefix}.{part}_proj.bias" in self.tensors for part in parts)

    def check_shape(self, key: str, expected: tuple[int, ...]) -> None:
        found = tuple(self.tensors[key].shape)
        if found != expected:
            raise ValueError(f"{key} has the shape {found}, not {expected}")

    def check_count(self, count: int) -> None:
        """Check the count before modules are built: each has at least one tensor in the file."""
        if count > len(self.tensors):
            raise UserError(f"{self.name} has {len(self.tensors)} tensors, too few for its config.")

    def fill(self, make: Callable[[], Net]) -> Net:
        """The net that `make` builds, with these tensors. UserError if they do not fit.

        Nothing is allocated for sizes that the tensors do not have.
        """
        with saying(f"{self.name} does not fit this target"):
            with torch.device("meta"):
                net = make()
            for key, wanted in net.state_dict().items():
                self.check_shape(key, tuple(wanted.shape))
            # A file may hold more: EAGLE heads include a copy of the target's embeddings.
            net.load_state_dict(self.tensors, strict=False, assign=True)
        return net


def check_same(name: str, what: str, found: Any, expected: int | None) -> None:
    if found != expected:
        raise UserError(
            f"{name} does not fit this target: its {what} is {found}, the target's is {expected}."
        )


class Trained(Drafter):
    """A drafter with weights: `net`, which is saved and trained.

    In a class's bases it comes first. The `method` in a config tells whose files these are.
    """

    net_class: ClassVar[Any]  # takes the sizes

    def __init__(self, net: nn.Module, target: Target, name: str = "") -> None:
        self.net, self.name = net, name or self.method

    @classmethod
    def recognises(cls, config: Mapping[str, Any], tensors: Collection[str]) -> bool:
        """Whether files without our keys are of this method, by their config, the names of their
        tensors, or both: what a caller does not know is empty."""
        return False

    @classmethod
    def in_one_form(cls, files: Files) -> Files:
        """Files of any published form in the form that is read here."""
        return files

    @classmethod
    @abstractmethod
    def sizes(cls, files: Files, target: Target) -> Any:
        """The net's sizes. UserError or any other error if they do not fit the target."""

    @abstractmethod
    def config_keys(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What `sizes` reads: in the keys of its authors, and in our own."""

    @classmethod
    @abstractmethod
    def fresh_sizes(cls, target: Target, inner: int = 0) -> Any:
        """Sizes for training. inner: what makes the net larger, such as a width."""

    @classmethod
    def from_files(cls, files: Files, target: Target, tli: int | None) -> Self:
        """The drafter, with its files' weights, as `sizes` finds them. tli: MoA's N, if asked."""
        return cls(cls.filled(files, target), target, files.name)

    @classmethod
    def filled(cls, files: Files, target: Target) -> Any:
        net = files.fill(lambda: cls.net_class(cls.sizes(files, target)))
        return net.to(target.device, target.dtype).eval().requires_grad_(False)

    @classmethod
    def fresh(cls, target: Target, budget: int, name: str) -> Self:
        """An untrained drafter with about `budget` parameters."""
        net = widened(lambda inner: cls.net_class(cls.fresh_sizes(target, inner)), budget)
        return cls(initialised(net), target, name)

    def states(
        self, embedded: Tensor, before: Tensor, positions: Tensor, visible: Tensor
    ) -> Tensor:
        """What the head reads after each token of a text [B, T, E], for training.

        embedded   [B, T, E] the tokens
        before     [B, T, E] the target's last hidden state of the token before each
        positions  [B, T]
        visible    [B, 1, T, T] bool: which tokens each one may see
        """
        raise NotImplementedError(f"{self.name} is trained by a Trainee of its own.")


def widened(make: Callable[[int], Net], budget: int) -> Net:
    """The net whose width comes closest to `budget` parameters, or its only size."""
    base = parameters(make(1))
    step = parameters(make(2)) - base
    if not step:
        return make(1)
    return make(max(1, 1 + round((budget - base) / step)))


def initialised(net: Net) -> Net:
    for module in net.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return net


def layer_keys(sizes: Any) -> dict[str, int]:
    """A layer's sizes in a config's keys."""
    return dict(zip(LAYER, (sizes.heads, sizes.kv_heads, sizes.inner), strict=True))


def target_heads(target: Target) -> tuple[int, int, int, int]:
    """E, and the target's heads, kv heads and head size."""
    config = target.config
    return config.hidden_size, config.num_attention_heads, target.kv_heads, target.head_dim


def plain_rope(target: Target) -> dict[str, Any]:
    """RoPE parameters with the target's theta, unscaled."""
    return {"rope_type": "default", "rope_theta": target.config.rope_parameters["rope_theta"]}
