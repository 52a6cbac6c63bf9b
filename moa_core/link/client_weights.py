"""The client's part of the target, as files: packed by the server, opened by the client.

It has embeddings, head, final norm and the last N layers, with the config and the tokenizer: only
the weights that a drafter uses. The other layers have no weights and are never run.
"""

import copy
import hashlib
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import torch
from accelerate import init_empty_weights
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from moa_core.cache import cache_folder, making
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError, first_line, saying
from moa_core.link.connection import GONE, Address, reach
from moa_core.link.wire import PIECE, VERSION, Fetch, Hello, Piece
from moa_core.loading.drafter_files import fingerprint
from moa_core.loading.load import config_of, plain_weights, tokenizer_in
from moa_core.model.target import Target
from moa_core.untrusted import read_json

WEIGHTS, FACTS = "client.safetensors", "client.json"
FLOATS = {torch.float32, torch.bfloat16, torch.float16}
FETCH_WITHIN = 30.0  # seconds from one piece of a file to the next
MARK = re.compile("[0-9a-f]{16}-[0-9a-f]{16}")


def client_weights(target: Target, last: int) -> dict[str, Tensor]:
    """The tensors that a client needs, by their names in the model. last: N of TLI."""
    dropped = [f".layers.{layer}." for layer in range(len(target.layers) - last)]
    if target.config.tie_word_embeddings:
        dropped.append("lm_head.")
    return plain_weights(target.model, lambda name: not any(part in name for part in dropped))


def write(target: Target, last: int, folder: Path) -> None:
    tensors = client_weights(target, last)
    save_file({key: tensor.cpu().contiguous() for key, tensor in tensors.items()}, folder / WEIGHTS)
    config = copy.deepcopy(target.config)
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the files are not quantised
    config.save_pretrained(folder)
    if target.tokenizer is not None:
        target.tokenizer.save_pretrained(folder)
    facts = {"name": target.name, "eos_ids": target.eos_ids, "last": last}
    (folder / FACTS).write_text(json.dumps(facts))


def pieces(folder: Path) -> Iterator[Piece]:
    """The files of a folder, with an empty piece at the end. After the first piece, the folder may
    be deleted, because its files are open."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    total = sum(path.stat().st_size for path in paths)
    with ExitStack() as opened:
        files = [(path.name, opened.enter_context(path.open("rb"))) for path in paths]
        for name, file in files:
            while data := file.read(PIECE):
                yield Piece(name, data, total)
    yield Piece("", b"", total)


def packed(target: Target, last: int, folder: Path) -> Path:
    """The files for clients of this N; the folder keeps those of one N at a time.

    Not thread-safe.
    """
    last = min(last, len(target.layers))
    place = folder / str(last)
    if not (place / FACTS).exists():
        for other in folder.iterdir():
            shutil.rmtree(other, ignore_errors=True)
        place.mkdir(exist_ok=True)
        write(target, last, place)
    return place


def target_mark(target: Target) -> str:
    """A hash on which both ends must agree: shape, RoPE, and a sample of the client's weights.

    It ignores quantisation. A client has at most TLI's layers; unquantised, they draft almost as
    well for a quantised target, and the text is the server's in any case.
    """
    weights = client_weights(target, 0)
    sample = _hash({name: tensor.flatten()[::101] for name, tensor in weights.items()})
    return f"{fingerprint(target)}-{sample[:16]}"


def drafter_mark(drafter: Drafter) -> str:
    """A hash of a drafter's weights, which both halves must share; "" without weights."""
    net = getattr(drafter, "net", None)
    return "" if net is None else _hash(net.state_dict())[:32]


def _hash(tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.detach().float().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def keep(pieces: Iterable[Piece], folder: Path) -> None:
    """Write the files in these pieces into a folder, all or none."""
    written = 0
    with making(folder) as new:
        free = shutil.disk_usage(new).free  # before anything is written
        for piece in pieces:
            if not piece.name:
                break
            path = new / piece.name
            if "\0" in piece.name or path.resolve().parent != new.resolve():
                raise UserError("The server sent a file that belongs elsewhere; it was not kept.")
            if written + len(piece.data) > min(piece.total, free):
                raise UserError(
                    "The server sent more than it said, or more than fits here; it was not kept."
                )
            with path.open("ab") as file:
                written += file.write(piece.data)


def open_target(folder: Path, last: int = 0) -> Target:
    """A target without the layers that only the server runs. UserError if anything is missing.

    last  TLI layers that must be present
    """
    with saying("What the server sent cannot be opened"):
        target = _opened(folder)
        weights = client_weights(target, last)
        types = {tensor.dtype for tensor in weights.values()}
        if missing := [name for name, tensor in weights.items() if tensor.is_meta]:
            raise ValueError(f"it lacks {missing[0]}")
        if len(types) != 1 or not types <= FLOATS:
            raise ValueError(f"its weights are of {', '.join(sorted(map(str, types)))}")
        return target


def _opened(folder: Path) -> Target:
    facts = read_json(folder / FACTS)
    tensors = load_file(folder / WEIGHTS)
    config = config_of(folder)
    if config.hidden_size > max(max(tensor.shape, default=0) for tensor in tensors.values()):
        raise ValueError("its config is of another model than its weights")
    with init_empty_weights(include_buffers=False):
        dtype = next(iter(tensors.values())).dtype
        model = AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.load_state_dict(tensors, strict=False, assign=True)
    model.tie_weights()
    name = str(facts["name"])[:200]
    target = Target(model.requires_grad_(False), tokenizer_in(folder), name)
    target.eos_ids = tuple(map(int, facts["eos_ids"]))
    return target


def client_target(
    address: Address, last: int, folder: Path | None = None, drafts: str = "auto"
) -> Target:
    """A client's part of a server's target, from this machine's cache or fetched and cached.

    last    TLI layers to hold
    folder  of the cache; default: this program's
    drafts  their precision: int8, float32, or auto, as each drafter says
    """
    with closing(reach(address, Hello(VERSION, address.token))) as wire:
        mark = wire.welcome.fingerprint
    if not MARK.fullmatch(mark):  # it becomes a folder's name
        raise UserError("The server sent no valid fingerprint of its target.")
    place = (folder or cache_folder() / "clients") / f"{mark}-n{last}"
    try:
        if not place.exists():
            keep(fetch(address, last), place)
        target = open_target(place, last)
        if target_mark(target) != mark:
            raise UserError("What the server sent is not what its target is made of.")
    except UserError:
        # Without this, a good server with the same mark would never be asked again.
        shutil.rmtree(place, ignore_errors=True)
        raise
    except OSError as error:
        raise UserError(f"What the server sent cannot be kept: {first_line(error)}") from error
    target.drafts = drafts
    return target


def fetch(address: Address, last: int) -> Iterator[Piece]:
    """The client's part of the server's target, in pieces. UserError if it does not arrive."""
    with closing(reach(address, Hello(VERSION, address.token))) as wire:
        try:
            wire.send(Fetch(last))
            while True:
                message = wire.receive(FETCH_WITHIN)
                if isinstance(message, Piece):
                    yield message
                    if not message.name:
                        return
        except GONE as error:
            raise UserError(f"The server at {address.url} is gone: {error}") from error
