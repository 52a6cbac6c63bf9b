"""`bench --link`: measures decoding over emulated links to a server in another process."""

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch

from moa_core.arguments import target_of
from moa_core.bench.methods import STREAM, Ours, Record, written
from moa_core.bench.records import Row, check_out, head, write
from moa_core.bench.results import aligned, grouped, outputs, shown
from moa_core.bench.run import measure, one_tree
from moa_core.bench.suites import load_suite
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Prefilled, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.names import VANILLA, listed
from moa_core.errors import UserError
from moa_core.link.client_weights import client_target
from moa_core.link.connection import Address
from moa_core.link.emulator import Link, LinkSettings, link
from moa_core.link.process import ServerProcess
from moa_core.link.remote import Remote
from moa_core.loading.catalog import bundled_drafters, layers_needed
from moa_core.loading.load import load_drafter, wanted_drafts
from moa_core.model.target import Target

LOCAL = "local"  # no server: target and drafter in one process
DIRECT = "direct"  # the server's process, without an emulated link
EACH = 2  # prompts of each kind
SHOWN = {"ms_per_token": 1, "calls_per_100": 1, "down_per_token": 0}


class OverLink(Ours):
    """A drafter with its target across a link, or in this process without an address."""

    def __init__(
        self, name: str, target: Target, drafter: Drafter, tree: TreeSettings,
        address: Address | None = None, settings: LinkSettings | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, target, drafter, tree)
        self._address, self._settings = address, settings

    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        """One prompt in its own session. Seconds are the client's wall time."""
        way = Link(self._settings) if self._settings else None
        far: Any = nullcontext()
        if self._address is not None:
            streams = self.name == STREAM
            far = Remote(self._address, self.target, self.drafter, streams, link=way)
        with far as remote:
            trace, times, began = Trace(), list[float](), perf_counter()
            events = decode(self.target, self.drafter, ids, settings, remote=remote)
            for event in trace.record(events):
                if isinstance(event, Prefilled | Verified):
                    times.append(perf_counter() - began)
        verified = trace.of(Verified)
        return {
            **written(trace.output_ids, len(ids)),
            "first": times[0],
            "second": times[min(1, len(times) - 1)],
            "last": times[-1],
            "gained": sum(trace.accepted_lengths),
            "calls": len(verified),
            "down": sum(event.received for event in verified),
        }


def run(options: argparse.Namespace) -> None:
    path, names, links = check_out(options.out), _methods(options.methods), _links(options.link)
    if options.tree == "auto":
        raise UserError("Over a link all share a tree: --tree same, or depth-breadth-budget.")
    tree, options.limit = one_tree(options.tree), options.limit or EACH
    prompts = load_suite(options.suite, options.limit)
    torch.set_num_threads(options.threads or 1)
    specs = {label: {"spec": one.spec} for label, one in links.items()}
    with ExitStack() as stack:
        address, near = _served(options, names, stack)
        whole = target_of(options)
        methods = _placed(names, links, address, near, whole, tree)
        folder = path.with_suffix(".runs")
        facts, records = measure(options, whole, methods, prompts, folder, links=specs)
    found = rows(records)
    write(head("link", options.given, **facts, links=specs, rows=found), path)
    print(table(found))
    print(path)


def _methods(text: str | None) -> list[str]:
    known = [*(info.name for info in bundled_drafters()), STREAM]
    names = known if text is None else listed(text, known)
    for name in names:
        if name not in known:
            raise UserError(
                f"Over a link there is no {name}: choose from {', '.join(known)} ({STREAM} is "
                "plain API streaming)."
            )
    return names


def _links(specs: Sequence[str]) -> dict[str, LinkSettings]:
    """Links by name: a preset's, or the description itself."""
    found: dict[str, LinkSettings] = {}
    for settings in (link(spec) for spec in specs if spec != DIRECT):
        label = settings.spec if settings.name == "custom" else settings.name
        if label in found:
            raise UserError(f"--link names {label} twice.")
        found[label] = settings
    return found


def _served(
    options: argparse.Namespace, names: Sequence[str], stack: ExitStack
) -> tuple[Address, Target]:
    """A server, and the client's part of its target, downloaded as by any client."""
    words = ["--threads", "1", "--device", options.device, "--dtype", options.dtype]
    words += ["--target", options.target] if options.target else []
    address = stack.enter_context(ServerProcess(*words)).address()
    cache = Path(stack.enter_context(TemporaryDirectory(prefix="moa-bench-")))
    last = max([0, *(layers_needed(name) for name in names if name != STREAM)])
    drafts = wanted_drafts(options.drafts, options.dtype)
    return address, client_target(address, last, cache, drafts=drafts)


def _placed(
    names: Sequence[str], links: Mapping[str, LinkSettings], address: Address, near: Target,
    whole: Target, tree: TreeSettings,
) -> dict[str, OverLink]:  # fmt: skip
    """Each method in each place, named METHOD@PLACE."""

    def drafter(name: str, target: Target) -> Drafter:
        return Vanilla() if name in (STREAM, VANILLA) else load_drafter(name, target)

    found = {}
    for name in (VANILLA, *(name for name in names if name != STREAM)):
        found[f"{name}@{LOCAL}"] = OverLink(name, whole, drafter(name, whole), tree)
    places: dict[str, LinkSettings | None] = {DIRECT: None, **links}
    for name in names:
        far = drafter(name, near)
        for label, settings in places.items():
            found[f"{name}@{label}"] = OverLink(name, near, far, tree, address, settings)
    return found


def rows(records: Sequence[Record]) -> list[Row]:
    """A row per method and link. Bytes are those of messages, without frames and packets.

    ms_per_token      from the first token to the last, over the tokens after the first: median of
                      the repeats. Of `stream` from its second token on, since here its stream is
                      asked for only then
    calls_per_100     target forwards per 100 tokens after the prefill
    down_per_token    bytes
    runs, differing   how many, and how many of them differ from plain local decoding
    """
    plain = outputs(records, f"{VANILLA}@{LOCAL}")
    return [
        {"method": name.split("@")[0], "link": name.split("@")[1], **_row(mine, plain)}
        for name, mine in grouped(records, "method").items()
    ]


def _row(records: Sequence[Record], plain: Mapping[Any, str]) -> Row:
    def total(name: str) -> float:
        return float(sum(record[name] for record in records))

    gained, name = max(1, total("gained")), records[0]["method"]
    speeds = [pace for of in grouped(records, "repeat").values() if (pace := _pace(of)) is not None]
    return {
        "ms_per_token": median(speeds) if speeds else None,
        "calls_per_100": 100 * total("calls") / gained,
        "down_per_token": total("down") / gained,
        "runs": len(records),
        "differing": sum(text != plain[key] for key, text in outputs(records, name).items()),
    }


def _pace(records: Sequence[Record]) -> float | None:
    streamed = records[0]["method"].partition("@")[0] == STREAM
    first, skipped = ("second", 2) if streamed else ("first", 1)
    long = [record for record in records if record["new_tokens"] > skipped]
    tokens = sum(record["new_tokens"] - skipped for record in long)
    return 1e3 * sum(record["last"] - record[first] for record in long) / tokens if long else None


def table(found: Sequence[Row]) -> str:
    lines = [["link", "method", *SHOWN, "texts that differ"]]
    for row in found:
        cells = [shown(row[name], digits) for name, digits in SHOWN.items()]
        lines.append([row["link"], row["method"], *cells, f"{row['differing']}/{row['runs']}"])
    return aligned(lines, words=2)
