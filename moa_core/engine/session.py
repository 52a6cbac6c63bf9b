"""Sessions of onnxruntime, shared by all runs and bound to each run's caches."""

from __future__ import annotations

import ctypes
import logging
import mmap
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor

from moa_core.engine.graph import Graph
from moa_core.model.cache import KVCache
from moa_core.runtime import free_bytes

log = logging.getLogger(__name__)
PAGEOUT = 21  # Linux: MADV_PAGEOUT
Caches = dict[str, tuple[KVCache, int]]  # names in a graph; a cache and the place of its layer


class Sessions:
    """One graph's session, rebuilt when the number of threads or the weights change.

    Copies of it are empty, because a copied model has its own weights.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._key: Any = None
        self._session: Any = None

    def __reduce__(self) -> tuple[type[Sessions], tuple[()]]:
        return Sessions, ()

    def get(self, weights: Sequence[Tensor], build: Callable[[], Graph], *more: Any) -> Any:
        """The session for torch's number of threads and `more` that the graph depends on. None
        unless all weights are float32 on a CPU, and memory holds a second, packed copy."""
        if any(one.device.type != "cpu" or one.dtype != torch.float32 for one in weights):
            return None
        versions = [(one.data_ptr(), one.is_inference() or one._version) for one in weights]
        with self._lock:
            if (key := (torch.get_num_threads(), versions, *more)) != self._key:
                self._key, self._session = None, None  # frees the old copy first
                if not has_room(weights):
                    return None
                graph = build()
                self._session, self._key = _session(graph, key[0]), key
                give_back([*graph.weights.values(), *(one.detach().numpy() for one in weights)])
            return self._session


def has_room(weights: Sequence[Tensor]) -> bool:
    """Whether memory holds what onnxruntime packs of these weights. If not, the log says so."""
    needed, free = 4 * sum(one.numel() for one in weights), free_bytes(torch.device("cpu"))
    if needed > free:
        log.warning(
            "Torch runs this model, because onnxruntime would need %.1f GB and %.1f GB are free.",
            needed / 1e9, free / 1e9,
        )  # fmt: skip
    return bool(needed <= free)


class GraphRun:
    """A session with the caches of one run. A cache that the graph extends is both input and
    output, so nothing is copied.

    table  [V, E] the embeddings, for `Graph.rows`
    """

    def __init__(self, session: Any, caches: Caches, table: Tensor | None = None) -> None:
        self._session, self._binding = session, session.io_binding()
        names = {one.name for one in (*session.get_inputs(), *session.get_outputs())}
        self._caches = dict(caches)  # kept alive: onnxruntime gets only addresses
        self._lengths = {f"{name}.length": cache for name, (cache, _) in caches.items()}
        self._lengths = {name: self._lengths[name] for name in names & self._lengths.keys()}
        for name, (cache, place) in caches.items():
            for part, tensor in zip(("keys", "values"), cache.layer(place), strict=True):
                where = "cpu", 0, np.float32, tuple(tensor.shape), tensor.data_ptr()
                self._binding.bind_input(f"{name}.{part}", *where)
                if f"new.{name}.{part}" in names:
                    self._binding.bind_output(f"new.{name}.{part}", *where)
        if table is not None and "table" in names:
            self._table = table.detach().numpy()  # kept alive: onnxruntime gets only its address
            self._binding.bind_cpu_input("table", self._table)

    def __call__(
        self, inputs: Mapping[str, Tensor | NDArray[Any]], shapes: Mapping[str, tuple[int, ...]]
    ) -> list[Tensor]:
        """Run the graph; return the outputs with these names and shapes."""
        lengths = {name: np.array([cache.length]) for name, cache in self._lengths.items()}
        arrays = {  # kept until the graph has run
            name: np.ascontiguousarray(one.numpy() if isinstance(one, Tensor) else one)
            for name, one in {**inputs, **lengths}.items()
        }
        for name, array in arrays.items():
            self._binding.bind_cpu_input(name, array)
        found = [torch.empty(shape, dtype=torch.float32) for shape in shapes.values()]
        for (name, shape), tensor in zip(shapes.items(), found, strict=True):
            self._binding.bind_output(name, "cpu", 0, np.float32, shape, tensor.data_ptr())
        self._session.run_with_iobinding(self._binding)
        return found


@contextmanager
def one_thread() -> Iterator[None]:
    """torch on one thread: more threads would take the CPU from the graphs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def rows(
    tokens: Sequence[int] | Tensor, positions: Sequence[int], past: int, seen: Tensor | None
) -> dict[str, Tensor | NDArray[Any]]:
    """The inputs of `Graph.rows` for n new tokens at these positions, after `past` slots.

    seen  [n, s] bool: which of the last s slots each token sees; None: they follow one another in
          the text, and only the last one's outputs are needed
    """
    count = len(positions)
    bias = np.zeros((count, past + count), np.float32)
    among = np.tri(count, dtype=np.bool_) if seen is None else seen.numpy()
    bias[:, past + count - among.shape[1] :][~among] = -np.inf
    return {
        "tokens": np.asarray(tokens, np.int64)[None],
        "positions": np.array([positions], np.int64),
        "bias": bias[None, None],
        "slots": np.arange(past, past + count),
        "end": np.array([past + count]),
        "first": np.array([count - 1 if seen is None else 0]),
    }


def _session(graph: Graph, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    # A second thread pays only if waiting threads spin within a run. Between runs they must stop,
    # for torch and for other runs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "1")
    options.add_session_config_entry("session.force_spinning_stop", "1")
    # The first call lets the graph be read without a file, the second keeps weights uncopied.
    refer = onnxruntime.OrtValue.ortvalue_from_numpy
    values = {name: refer(array) for name, array in graph.weights.items()}
    options.add_external_initializers(list(values), list(values.values()))
    for name, value in values.items():
        options.add_initializer(name, value)
    made: Any = onnxruntime.InferenceSession(
        graph.model(), options, providers=["CPUExecutionProvider"]
    )
    made.weights = values  # kept alive: onnxruntime gets only addresses
    return made


def give_back(arrays: Iterable[NDArray[Any]]) -> int:
    """Take pages of mapped files out of memory, since onnxruntime has packed a copy of them; a
    later read brings them back. The number of bytes; 0 where the system cannot."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:  # not Linux
        return 0
    files = [
        (int(start, 16), int(end, 16))
        for start, end in re.findall(r"^(\w+)-(\w+) r.-p \w+ \S+ [1-9]\d* ", maps, re.M)
    ]
    madvise, page, given = ctypes.CDLL(None).madvise, mmap.PAGESIZE, 0
    for array in arrays:
        start, end = array.ctypes.data, array.ctypes.data + array.nbytes
        if any(low <= start and end <= high for low, high in files):
            start, end = -(-start // page) * page, end // page * page
            if end > start and not madvise(
                ctypes.c_void_p(start), ctypes.c_size_t(end - start), PAGEOUT
            ):
                given += end - start
    return given
