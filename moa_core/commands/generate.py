"""Decode one prompt, speculatively, and print the text and what it took."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from moa_core.arguments import (
    SPEC,
    add_target,
    add_token,
    check_file,
    chosen_preset,
    path,
    target_of,
    token_of,
)
from moa_core.drafters.names import VANILLA
from moa_core.errors import UserError
from moa_core.runtime import use_threads

if TYPE_CHECKING:
    from moa_core.decoding.decode import Settings
    from moa_core.decoding.trace import Trace
    from moa_core.generation import Piece
    from moa_core.link.connection import Address

LOST = "\nThe server is lost. What the drafter can write alone is shown once the server is back."
BACK = "The server is back."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    # fmt: off
    add = parser.add_argument
    add("--drafter", help=f"{SPEC}, ngram, vanilla; default: moa-n0")
    prompt = parser.add_mutually_exclusive_group(required=True)
    prompt.add_argument("--prompt", help="a message, through the chat template if there is one")
    prompt.add_argument("--prompt-ids", help="token ids instead: 1,2,3")
    add("--raw", action="store_true", help="--prompt as it is, no chat template")
    add("--max-new-tokens", type=int, default=128, help="the longest text to write")
    add("--tree", default="auto", help="auto: each cycle's size follows measured costs and "
        "gains; own: the one in the drafter's config, else 5-4-11; or depth-breadth-budget")
    add("--temperature", type=float, default=0.0, help="0: greedy")
    add("--top-p", type=float, default=1.0, help="1: off")
    add("--top-k", type=int, default=0, help="0: off")
    add("--seed", type=int, default=0, help="of sampling")
    add("--threads", type=int, help="CPU threads; default: one for each core")
    add("--ignore-eos", action="store_true", help="go on after the end of turn")
    add("--trace", type=path, help="write the trace of the run to this file")
    add("--json", action="store_true", help="print one JSON object")
    link = parser.add_argument_group("the target on a server, the drafter here")
    link.add_argument("--server", help="its address, ws://host:port")
    add_token(link, "the server's access token")
    link.add_argument("--patience", type=float, default=30.0, help="seconds to wait for a lost "
        "server, once the drafter has no more to write alone")
    # fmt: on


def run(options: argparse.Namespace) -> None:
    ids = _ids(options.prompt_ids) if options.prompt_ids is not None else None
    if options.trace:
        check_file(options.trace, "trace")
    use_threads(options.threads)
    settings = _settings(options)
    from moa_core.generation import generate
    from moa_core.loading.catalog import drafter_name, layers_needed
    from moa_core.loading.load import load_drafter
    from moa_core.runtime import quiet
    from moa_core.text import record_words

    quiet()
    if preset := chosen_preset(options):
        options.drafter = preset.drafter(options.drafter)
        options.target = None if options.server else options.target
    address = _address(options)
    if options.drafter:
        drafter_name(options.drafter)  # a wrong one is told before anything is loaded
    if address is None:
        target = target_of(options, [options.drafter] if options.drafter else [])
    else:
        from moa_core.link.client_weights import client_target
        from moa_core.link.remote import Remote
        from moa_core.loading.load import wanted_drafts

        needed = layers_needed(options.drafter)
        drafts = wanted_drafts(options.drafts, options.dtype)
        target = client_target(address, needed, drafts=drafts)
    drafter = load_drafter(options.drafter, target)
    if options.tree == "own":
        settings = replace(settings, tree=drafter.tree)
    if ids is None and target.tokenizer is None:
        raise UserError(f"{target.name} has no tokenizer: give --prompt-ids instead of --prompt.")
    prompt = options.prompt if ids is None else ids
    plain = drafter.name == VANILLA  # as an API does it: the server pushes a token a message
    with Remote(address, target, drafter, plain) if address else nullcontext() as remote:
        pieces = generate(target, drafter, prompt, settings, raw=options.raw, remote=remote)
        text, last = _shown(pieces, silent=options.json)
    assert last.trace is not None, "the last piece has the run"
    words = None if target.tokenizer is None else text
    if options.json:
        print(json.dumps(_report(last.trace, words, last.reason), ensure_ascii=False))
    else:
        print("" if words is not None else last.trace.output_ids)
        if alone := len(last.trace.offline_ids):
            print(
                f"The link was lost: the last {_counted(alone, 'token')} are the drafter's own, "
                "which no target has verified.",
                file=sys.stderr,
            )
        print(_figures(last.trace, last.reason))
    if options.trace:
        if target.tokenizer is not None:
            record_words(last.trace, target.tokenizer)
        options.trace.write_text(last.trace.to_json(), encoding="utf-8")


def _shown(pieces: Iterable[Piece], silent: bool) -> tuple[str, Piece]:
    from moa_core.text import clean

    text, terminal = "", sys.stdout.isatty()
    for piece in pieces:
        text += piece.text
        if piece.lost is not None:
            print(LOST if piece.lost else BACK, file=sys.stderr)
        if not silent:  # a terminal takes some characters for commands
            print(clean(piece.text) if terminal else piece.text, end="", flush=True)
    return text, piece


def _address(options: argparse.Namespace) -> Address | None:
    if options.server is None:
        return None
    if options.target:
        raise UserError("The server has the target: name --target or --server, not both.")
    if options.bits:
        raise UserError("The server has the target: --load-in-... is for serve.")
    from moa_core.link.connection import Address

    return Address(options.server, token_of(options))


def _ids(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise UserError("--prompt-ids must be whole numbers with commas between: 1,2,3") from None


def _settings(options: argparse.Namespace) -> Settings:
    """UserError for wrong numbers, before anything is loaded."""
    from moa_core.decoding.decode import Settings
    from moa_core.decoding.tree import AUTO, named_tree
    from moa_core.decoding.verify import Sampling

    sampling = Sampling(options.temperature, options.top_p, options.top_k, options.seed)
    eos_ids = () if options.ignore_eos else None
    tree = AUTO if options.tree == "own" else named_tree(options.tree, "auto, own")
    return Settings(options.max_new_tokens, tree, sampling, eos_ids, options.patience)


def _report(trace: Trace, text: str | None, reason: str | None) -> dict[str, Any]:
    return {
        "output_ids": trace.output_ids,
        "text": text,
        "accepted_lengths": trace.accepted_lengths,
        "target_calls": trace.target_calls,
        "tau": trace.tau,
        "tokens_per_second": trace.tokens_per_second,
        "decode_tokens_per_second": trace.decode_tokens_per_second,
        "draft_precision": trace.about["machine"]["draft_precision"],
        "seconds": trace.seconds,
        "reason": reason,
    }


def _figures(trace: Trace, reason: str | None) -> str:
    parts = [_counted(len(trace.output_ids), "token"), _counted(trace.target_calls, "target call")]
    if trace.tau is not None:  # else the prefill's token is the only one
        parts.append(f"τ {trace.tau:.2f} tokens per target call after the prompt's")
    if after := trace.decode_tokens_per_second:
        whole = trace.tokens_per_second
        parts.append(f"{whole:.1f} tokens/s, prompt included ({after:.1f} while decoding)")
    if precision := trace.about["machine"]["draft_precision"]:
        parts.append(f"drafts in {precision}")
    return f"\n{', '.join(parts)}, ended by {reason}"


def _counted(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
