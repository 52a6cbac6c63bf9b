"""Breaks of what comes in and goes out: the wire, traces, files, text, memory, figures."""

from tests.mutants.mutant import Mutant

WIRE = ("link/test_wire.py",)
SESSION = ("link/test_session.py",)
LIES = ("link/test_lies.py",)
TRACE = ("test_trace.py", "test_trace_properties.py")
STRANGERS = ("test_strangers.py",)
FORMATS = ("test_formats.py",)
FITTING = ("test_fitting.py",)
LAYOUTS = ("export/test_layouts.py", "test_formats.py")
MEMORY = ("test_memory.py",)
TEXT = ("test_text.py",)
RESULTS = ("bench/test_results.py",)

MUTANTS = (
    # The link.
    Mutant("int8 is scaled to 128", "link/numbers.py", "/ 127", "/ 128", WIRE),
    Mutant(
        "numbers need not fill their shape",
        "link/numbers.py", "if len(self.data) != count * SIZES[self.kind]",
        "if len(self.data) > count * SIZES[self.kind]", WIRE,
    ),
    Mutant(
        "a node may be its own parent",
        "link/wire.py", "not 0 <= parent < node", "not 0 <= parent <= node", WIRE,
    ),
    Mutant(
        "unknown fields pass", "link/wire.py", "forbid_unknown_fields=True",
        "forbid_unknown_fields=False", WIRE,
    ),
    Mutant(
        "parts have no end", "link/wire.py", "len(self._parts) > MOST_WHOLE", "False", WIRE,
    ),
    Mutant(
        "a session does not go back to where a request stands",
        "link/session.py", "self._target.rewind(request.position)", "pass", SESSION,
    ),
    Mutant(
        "a request may stand one beyond the text",
        "link/session.py", "request.position > self.known", "request.position > self.known + 1",
        SESSION,
    ),
    Mutant(
        "of a long chain one node too few is kept",
        "link/session.py", "1 + len(walk(tree, tokens)[0])", "max(1, len(walk(tree, tokens)[0]))",
        SESSION,
    ),
    Mutant(
        "the same request is answered anew",
        "link/session.py", "if request.number == self.number and isinstance(self._answer, Answer):",
        "if False:", SESSION,
    ),
    Mutant(
        "a half of another shape is taken",
        "link/checks.py", " or tuple(sent.shape) != shape", "", LIES,
    ),
    Mutant(
        "a half may bring more than is due",
        "link/checks.py", "if len(half) > len(shapes):", "if False:", LIES,
    ),
    Mutant(
        "the server may choose for fewer nodes",
        "link/checks.py", "len(found.drafts) == nodes", "len(found.drafts) <= nodes", LIES,
    ),
    Mutant(
        "the first token beyond the vocabulary is taken",
        "link/checks.py", ">= vocabulary", "> vocabulary", LIES,
    ),
    # Traces.
    Mutant(
        "the bonus token is not gained",
        "trace.py", "return len(self.path) + 1", "return len(self.path)", TRACE,
    ),
    Mutant(
        "the prefill's time counts as decoding",
        "trace.py", 'if phase != "prefill")', "if phase)", TRACE,
    ),
    Mutant(
        "the prefill's token counts as decoded",
        "trace.py", "len(self.output_ids) - 1", "len(self.output_ids)", TRACE,
    ),
    Mutant(
        "traces of another version are read",
        "trace_file.py", "version != VERSION", "version < VERSION", TRACE,
    ),
    Mutant(
        "a node of a trace may be below itself",
        "trace_file.py", "all(0 <= parent < node", "all(0 <= parent <= node", TRACE,
    ),
    Mutant(
        "numbers of a trace have no end", "trace_file.py", "<= value <= LARGEST:\n        raise "
        'UserError("no number")', '<= value:\n        raise UserError("no number")', TRACE,
    ),
    # What strangers bring.
    Mutant(
        "code of a repository is run", "strangers.py", '"trust_remote_code": False',
        '"trust_remote_code": True', STRANGERS,
    ),
    Mutant(
        "pickles are opened unasked", "strangers.py", 'os.environ.get(PICKLES) == "1"',
        'os.environ.get(PICKLES) != "0"', STRANGERS,
    ),
    # Files.
    Mutant(
        "a drafter's file says another inner width",
        "formats.py", 'keys[f"{prefix}_intermediate_size"] = sizes.inner',
        'keys[f"{prefix}_intermediate_size"] = sizes.kv_heads', LAYOUTS,
    ),
    Mutant(
        "the authors' files are read with LSA's last row",
        "formats.py", 'ours.get("lsa_pool", "mean")', 'ours.get("lsa_pool", "last")',
        ("test_formats.py", "test_parity_moa.py"),
    ),
    Mutant(
        "the N that a file was trained for is forgotten",
        "formats.py", "wanted = tli if tli is not None else (stored or 0)", "wanted = tli or 0",
        FORMATS,
    ),
    Mutant(
        "weights are written as float32, whatever was asked",
        "formats.py", "value.to(dtype).contiguous()", "value.float().contiguous()", FORMATS,
    ),
    Mutant(
        "a drafter for another RoPE fits",
        "fitting.py", 'known.get("fingerprint") not in', 'None not in', FITTING,
    ),
    Mutant(
        "a drafter for another tokenizer fits",
        "fitting.py", 'known.get("tokenizer") not in', "None not in", FITTING,
    ),
    Mutant(
        "a drafter of another shape fits",
        "fitting.py", "    if found != expected:", "    if False:", FITTING,
    ),
    # Text.
    Mutant(
        "special tokens that a person types are special",
        "text.py", "split_special_tokens=True", "split_special_tokens=False", TEXT,
    ),
    Mutant(
        "control characters pass", "text.py", '("Cc", "Cs")', '("Cs",)', TEXT,
    ),
    # Memory.
    Mutant(
        "K alone is counted, not V",
        "memory.py", "2 * kv_heads(config)", "kv_heads(config)", MEMORY,
    ),
    Mutant(
        "the scales of 4 bits are forgotten",
        "memory.py", "+ 4 * math.ceil(rows * columns / NF4_BLOCK)", "", MEMORY,
    ),
    Mutant(
        "a container's limit is not one",
        "memory.py", "return min(free, limit - used + files)",
        "return max(free, limit - used + files)", MEMORY,
    ),
    # Figures.
    Mutant(
        "a peer's prefill counts as a target call",
        "bench/results.py", 'record["target_calls"] - 1', 'record["target_calls"]', RESULTS,
    ),
    Mutant(
        "the bonus counts as an accepted draft",
        "bench/results.py", "[gained - 1 for record", "[gained for record", RESULTS,
    ),
    Mutant(
        "the spread is the middle half",
        "bench/results.py", "(0.025, 0.975)", "(0.25, 0.75)", RESULTS,
    ),
    Mutant(
        "the best repeat is told as the speed",
        "bench/results.py", "median(speeds)", "max(speeds)", RESULTS,
    ),
    Mutant(
        "the prefill's token is counted in the speed",
        "bench/results.py", 'record["new_tokens"] - 1', 'record["new_tokens"]', RESULTS,
    ),
    Mutant(
        "one repeat that differs is not a difference",
        "bench/results.py", "ours[repeat, prompt] != plain[repeat, prompt]",
        "ours[repeat, prompt] > plain[repeat, prompt]", RESULTS,
    ),
    Mutant(
        "a tie's gap has the wrong sign",
        "exactness.py", "logits[plain[at]].float() - logits[ours[at]].float()",
        "logits[ours[at]].float() - logits[plain[at]].float()", ("test_exactness.py",),
    ),
)  # fmt: skip
