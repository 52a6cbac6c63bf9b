"""`bench --link`: what decoding over a link costs and saves, with a server process of its own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
import transformers

from moa_core.arguments import token_of
from moa_core.bench.link_files import check_out, head, runs_folder, write
from moa_core.bench.link_rows import LOCAL, STREAM, rows, table
from moa_core.bench.machine import commit, machine, versions
from moa_core.bench.methods import Method, Record, checksum, written
from moa_core.bench.runs import Contender, Decoding, keep_settings, run_all
from moa_core.bench.suites import load_suite, suite_hash, suite_ids
from moa_core.bench.tuning import SAME, one_tree
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, LinkDown, Prefilled, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link.client_weights import client_target, target_mark
from moa_core.link.connection import Address
from moa_core.link.emulator import Link
from moa_core.link.network import LinkSettings, link
from moa_core.link.numbers import check_kind
from moa_core.link.process import ServerProcess
from moa_core.link.remote import Remote
from moa_core.loading.checkpoints import bundled_drafters, layers_needed, load_drafter, load_target
from moa_core.loading.loading import wanted_drafts
from moa_core.loading.names import VANILLA
from moa_core.model.target import Target, draft_precision

DIRECT = "direct"  # the server's process, with no emulated link between
METHODS = ("moa-n0", "moa-n1", "moa-n2", "moa-n3", "eagle2", "independent", STREAM)
EACH = 2  # prompts of each kind
SHARED = (
    "suite",
    "max_new_tokens",
    "temperature",
    "seed",
    "ignore_eos",
    "repeat",
    "server_threads",
)
KEPT = (*SHARED, "server_threads", "prompts", "limit", "tree", "numbers", "draft_precision")
ROOT = TreeSettings(1, 1, 1)  # plain decoding drafts nothing


class OverLink(Method):
    """A drafter whose target is at the other end of a link. address None: beside it."""

    trees = True

    def __init__(
        self, name: str, target: Target, drafter: Drafter, address: Address | None = None,
        settings: LinkSettings | None = None,
    ) -> None:  # fmt: skip
        super().__init__(name, target, drafter)
        self._address, self._settings = address, settings
        self._drafter = drafter
        self.precision = draft_precision(target, drafter)

    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        """One prompt in a session of its own. Seconds are wall time at the client."""
        with ExitStack() as stack:
            remote = None
            if self._address is not None:
                way = stack.enter_context(Link(self._settings)) if self._settings else None
                remote = stack.enter_context(Remote(
                    self._address, self.target, self._drafter, self.name == STREAM, link=way
                ))  # fmt: skip
            trace, marks, began = Trace(), list[float](), perf_counter()
            for event in trace.record(
                decode(self.target, self._drafter, ids, settings, remote=remote)
            ):
                if isinstance(event, Prefilled | Verified):
                    marks.append(perf_counter() - began)
        verified, before = trace.of(Verified), [*trace.of(Prefilled), *trace.of(Drafted)]
        return {
            **written(trace.output_ids, len(ids)),
            "first": marks[0],
            "second": marks[min(1, len(marks) - 1)],
            "last": marks[-1],
            "gained": sum(trace.accepted_lengths),
            "calls": len(verified),
            "server": sum(event.seconds for event in verified),
            "up": sum(event.sent for event in verified),
            "down": sum(event.received for event in verified),
            "prefill_up": sum(getattr(event, "sent", 0) for event in before),
            "prefill_down": sum(event.received for event in before),
            "downs": len(trace.of(LinkDown)),
        }


def run(options: argparse.Namespace) -> None:
    """Measure, write the figures, print a table."""
    path, names, links = check_out(options.out), _methods(options.methods), _links(options.link)
    kind = check_kind(options.numbers)
    if options.tree in ("auto", "best"):
        raise UserError("Over a link all share a tree: --tree same, or depth-breadth-budget.")
    tree = SAME if options.tree == "same" else one_tree(options.tree)
    prompts = load_suite(options.suite, options.limit or EACH)
    Decoding(options.max_new_tokens, options.temperature).settings(None, 0, 0)
    torch.set_num_threads(options.threads or 1)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    with ExitStack() as stack:
        address = _server(options, kind, stack)
        cache = Path(stack.enter_context(TemporaryDirectory(prefix="moa-bench-")))
        near = client_target(
            address, max([0, *(layers_needed(name) for name in names if name != STREAM)]), cache,
            drafts=wanted_drafts(options.drafts, options.dtype),
        )  # fmt: skip
        whole = load_target(options.target, options.dtype, options.device)
        if target_mark(whole) != target_mark(near):
            raise UserError(f"The server's target is not {whole.name}: name it with --target.")
        contenders = _contenders(names, links, address, near, whole, tree)
        same = {
            **{name: getattr(options, name) for name in SHARED}, "prompts": len(prompts),
            "server_threads": options.server_threads,
            "limit": options.limit or EACH, "tree": asdict(tree), "numbers": kind,
            "suite_hash": suite_hash(prompts), "methods": names,
            "draft_precision": {name: one.method.precision for name, one in contenders.items()},
            "links": {label: one.spec for label, one in links.items()},
            "weights": checksum([whole.head.weight]), "machine": machine(whole.device),
            "versions": versions(),
        }  # fmt: skip
        folder = runs_folder(path)
        commits = keep_settings(folder, same, commit())
        eos_ids = () if options.ignore_eos else whole.eos_ids
        decoding = Decoding(options.max_new_tokens, options.temperature, options.seed, eos_ids)
        records = run_all(
            contenders, prompts, suite_ids(prompts, whole), options.repeat, decoding,
            folder / "runs.jsonl", "link",
        )  # fmt: skip
    facts = head(
        "link", options.given, commits, machine=same["machine"],
        target={"name": whole.name, "dtype": str(whole.dtype).removeprefix("torch.")},
        links={label: {"spec": one.spec, "source": one.source} for label, one in links.items()},
        settings={name: same[name] for name in KEPT},
    )  # fmt: skip
    found = rows(records)
    write({**facts, "rows": found}, path)
    print(table(found))
    print(path)


def _methods(text: str | None) -> list[str]:
    """UserError for a name twice, or one that cannot draft over a link."""
    known = [*(info.name for info in bundled_drafters()), STREAM]
    names = [name for name in METHODS if name in known] if text is None else text.split(",")
    names = [name.strip() for name in names if name.strip()]
    if not names or len(set(names)) < len(names):
        raise UserError("--methods names at least one method, and none twice.")
    for name in names:
        if name not in known:
            raise UserError(
                f"Over a link there is no {name}: choose from {', '.join(known)} ({STREAM} is "
                "plain API streaming)."
            )
    return names


def _links(specs: Sequence[str]) -> dict[str, LinkSettings]:
    """Links by what to call them: a preset's name, or else what it is."""
    found: dict[str, LinkSettings] = {}
    for spec in specs:
        if spec == DIRECT:
            continue
        settings = link(spec)
        if settings.offline:
            raise UserError("Nothing passes an offline link: see --offline.")
        label = settings.spec if settings.name == "custom" else settings.name
        if label in found:
            raise UserError(f"--link names {label} twice.")
        found[label] = settings
    return found


def _server(options: argparse.Namespace, kind: Any, stack: ExitStack) -> Address:
    if options.server is not None:
        return Address(options.server, token_of(options), kind)
    words = ["--threads", str(options.server_threads), "--device", options.device]
    words += ["--dtype", options.dtype, *(["--target", options.target] if options.target else [])]
    return stack.enter_context(ServerProcess(*words)).address(kind)


def _contenders(
    names: Sequence[str], links: Mapping[str, LinkSettings], address: Address, near: Target,
    whole: Target, tree: TreeSettings,
) -> dict[str, Contender]:  # fmt: skip
    """Each method in each place, named METHOD@PLACE."""

    def drafter(name: str, target: Target) -> Drafter:
        return Vanilla() if name in (STREAM, VANILLA) else load_drafter(name, target)

    found = {}
    for name in (VANILLA, *(name for name in names if name != STREAM)):
        shape = ROOT if name == VANILLA else tree
        method = OverLink(name, whole, drafter(name, whole))
        found[f"{name}@{LOCAL}"] = Contender(method, shape)
    places: dict[str, LinkSettings | None] = {DIRECT: None, **links}
    for name in names:
        far = drafter(name, near)
        for label, settings in places.items():
            method = OverLink(name, near, far, address, settings)
            found[f"{name}@{label}"] = Contender(method, ROOT if name == STREAM else tree)
    return found
