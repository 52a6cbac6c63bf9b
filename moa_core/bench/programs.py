"""Greedy decoding by other programs, as baselines: llama.cpp and OpenVINO GenAI."""

import json
import tempfile
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import closing
from http.client import HTTPConnection
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import torch
from gguf import MODEL_ARCH, GGMLQuantizationType, GGUFWriter, get_tensor_name_map
from gguf.quants import quantize
from numpy.typing import NDArray

from moa_core.bench.methods import Method, Record, written
from moa_core.decoding.decode import Settings
from moa_core.errors import UserError
from moa_core.loading.gguf import SIZES
from moa_core.loading.hub import DEFAULT, default_file
from moa_core.model.target import Target

# llama.cpp's formats of matrices, by the method's name.
KINDS = {"llama-cpp": "F32", "llama-cpp-q8": "Q8_0", "llama-cpp-q4": "Q4_1"}
DRAFTS = "-ngram"  # ends the names of llama.cpp's methods with its own lookup


class Decoded(NamedTuple):
    """tokens: the new ones; first, rest: seconds to the first one, and from there on; accepted:
    drafts."""

    tokens: list[int]
    first: float
    rest: float
    accepted: int = 0


class Program(Method):
    """A program with torch's number of threads, and its own timings.

    package  what is to be installed: the module's name, with hyphens
    """

    package: str

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name, target)
        try:
            self._module: Any = import_module(self.package.replace("-", "_"))
        except ImportError:
            raise UserError(
                f"{name} needs a package that nothing else does: pip install {self.package}"
            ) from None

    @abstractmethod
    def decode(self, ids: Sequence[int], most: int, ends: Sequence[int]) -> Decoded:
        """most: new tokens; ends: token ids that end the text."""

    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        if not settings.sampling.greedy:
            raise UserError(f"{self.name} is compared at temperature 0 alone: leave it out.")
        most = min(settings.max_new_tokens, self.target.context - len(ids))
        found = self.decode(ids, most, settings.ends(self.target))
        return {
            **written(found.tokens, len(ids)),
            "target_calls": len(found.tokens) - found.accepted,
            "seconds": {"prefill": found.first, "decode": found.rest},
            "gained_after_prefill": len(found.tokens) - 1,
        }


class OpenVino(Program):
    """OpenVINO GenAI's pipeline on the default target's published file, which has 4 bits."""

    package = "openvino-genai"

    def __init__(self, name: str, target: Target) -> None:
        if target.name != DEFAULT:
            raise UserError(f"{name} is compared on {DEFAULT} alone: leave it out.")
        super().__init__(name, target)
        self._pipeline = self._module.LLMPipeline(
            str(default_file()), "CPU", INFERENCE_NUM_THREADS=torch.get_num_threads()
        )

    def decode(self, ids: Sequence[int], most: int, ends: Sequence[int]) -> Decoded:
        from openvino import Tensor

        prompt = np.array([ids], np.int64)
        found = self._pipeline.generate(
            self._module.TokenizedInputs(Tensor(prompt), Tensor(np.ones_like(prompt))),
            self._module.GenerationConfig(
                max_new_tokens=most, do_sample=False, ignore_eos=not ends, stop_token_ids=set(ends)
            ),
        )
        times = found.perf_metrics
        first, whole = (
            spent.mean / 1e3 for spent in (times.get_ttft(), times.get_generate_duration())
        )
        return Decoded(list(found.tokens[0]), first, whole - first)


class LlamaCpp(Program):
    """The server of xllamacpp with the target's weights in one of its formats, plain or with the
    first of its n-gram lookups, as it is set there."""

    package = "xllamacpp"

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name, target)
        if target.config.model_type != "llama":
            raise UserError("llama-cpp is compared on Llama targets alone: leave it out.")
        params = self._module.CommonParams()
        params.n_ctx, params.n_parallel, params.cache_ram_mib = target.context, 1, 0
        params.port, params.ui, params.verbosity = 0, False, -1
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = torch.get_num_threads()
        if name.endswith(DRAFTS):
            kinds = self._module.common_speculative_type
            params.speculative.types = [kinds.COMMON_SPECULATIVE_TYPE_NGRAM_SIMPLE]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "target.gguf"
            write_gguf(target, file, GGMLQuantizationType[KINDS[name.removesuffix(DRAFTS)]])
            params.model.path = str(file)
            self._server: Any = self._module.Server(params)

    def decode(self, ids: Sequence[int], most: int, ends: Sequence[int]) -> Decoded:
        question = {
            "prompt": list(ids), "n_predict": most, "stop": [f"<{end}>" for end in ends],
            "samplers": ["top_k"], "top_k": 1, "cache_prompt": False, "return_tokens": True,
        }  # fmt: skip
        place = urlsplit(self._server.listening_address).netloc
        with closing(HTTPConnection(place)) as connection:
            connection.request("POST", "/completion", json.dumps(question))
            answer = json.load(connection.getresponse())
        spent = answer["timings"]  # the first token is the prompt's
        times = spent["prompt_ms"] / 1e3, spent["predicted_ms"] / 1e3
        return Decoded(answer["tokens"], *times, spent.get("draft_n_accepted", 0))


def write_gguf(target: Target, file: Path, kind: GGMLQuantizationType) -> None:
    """Write a Llama's weights, its matrices in a format of llama.cpp's. Its vocabulary holds token
    numbers instead of words."""
    config = target.config
    writer = GGUFWriter(file, "llama")
    writer.add_tokenizer_model("rwkv")  # no end token: we end the text
    writer.add_token_list([f"<{token}>" for token in range(config.vocab_size)])
    for ours, theirs in SIZES.items():
        size = getattr(config, ours)
        add = writer.add_float32 if isinstance(size, float) else writer.add_uint32
        add(f"llama.{theirs}", size)
    writer.add_rope_dimension_count(target.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    names = get_tensor_name_map(MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for source, weight in target.model.state_dict().items():
        if name := names.get_name(source, [".weight"]):
            matrix, count = weight.float().numpy(), heads.get(name.split(".")[-2])
            matrix = interleaved(matrix, count) if count else matrix
            if matrix.ndim == 2:
                writer.add_tensor(name, quantize(matrix, kind), raw_dtype=kind)
            else:
                writer.add_tensor(name, matrix)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def interleaved(matrix: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """[heads * d, E]: llama.cpp's RoPE pairs neighbours, ours the two halves of a head."""
    halves = matrix.reshape(heads, 2, -1, matrix.shape[1])  # [heads, 2, d / 2, E]
    return np.ascontiguousarray(halves.swapaxes(1, 2).reshape(matrix.shape))
