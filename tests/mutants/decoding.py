"""Breaks of what makes decoding lossless: acceptance, tree, cache, the loop, the way back."""

from tests.mutants.mutant import Mutant

VERIFY = ("test_verify.py",)
SAMPLING = ("test_verify.py", "test_sampling.py")
TREE = ("test_tree.py",)
CACHE = ("test_cache.py",)
LOOP = ("test_decode.py", "test_lossless.py")
OFFLINE = ("test_offline.py",)

MUTANTS = (
    # Acceptance.
    Mutant(
        "a draft is compared with the root's choice",
        "verify.py", "get(choices[node])", "get(choices[0])", VERIFY,
    ),
    Mutant(
        "the bonus token is the root's choice",
        "verify.py", "return tuple(path), choices[node]", "return tuple(path), choices[0]", VERIFY,
    ),
    Mutant(
        "one draft at most is accepted",
        "verify.py", "        node = child\n", "        node = child\n        break\n", VERIFY,
    ),
    Mutant(
        "any drafted child is accepted",
        "verify.py", "tree.children[node].get(choices[node])",
        "next(iter(tree.children[node].values()), None)", VERIFY,
    ),
    # Sampling.
    Mutant(
        "one draw for all depths of a tree",
        "verify.py", "position + depth + 1)", "position + 1)", VERIFY,
    ),
    Mutant("draws forget the seed", "verify.py", "{seed}/{position}", "{position}", VERIFY),
    Mutant("draws forget the position", "verify.py", "{seed}/{position}", "{seed}", VERIFY),
    Mutant(
        "temperature is always 1",
        "verify.py", "TemperatureLogitsWarper(float(sampling.temperature))",
        "TemperatureLogitsWarper(1.0)", SAMPLING,
    ),
    Mutant(
        "top-p is never used", "verify.py", "sampling.top_p < 1", "sampling.top_p > 1", SAMPLING,
    ),
    Mutant(
        "top-k keeps one more",
        "verify.py", "TopKLogitsWarper(sampling.top_k)", "TopKLogitsWarper(sampling.top_k + 1)",
        SAMPLING,
    ),
    Mutant(
        "a draw of 0 may find what is impossible",
        "verify.py", "right=True", "right=False", VERIFY,
    ),
    Mutant(
        "a draft's probability is read at the root",
        "verify.py", "probs[parents, nodes]", "probs[0, nodes]", VERIFY,
    ),
    Mutant(
        "greedy takes the least likely",
        "verify.py", "tokens = logits.argmax(-1)", "tokens = logits.argmin(-1)", VERIFY,
    ),
    # Tree.
    Mutant(
        "a node sees its parent and no grandparent",
        "tree.py", "seen[node] |= seen[parent]", "seen[node, parent] = True", TREE,
    ),
    Mutant(
        "reranking keeps the least likely nodes",
        "tree.py", "torch.sort(scores, descending=True", "torch.sort(scores, descending=False",
        TREE,
    ),
    Mutant(
        "reranking keeps one node too few",
        "tree.py", "indices[: settings.budget]", "indices[: max(1, settings.budget - 1)]", TREE,
    ),
    Mutant(
        "children are chosen by their own probability alone",
        "tree.py", "(child_probs + log_probs[:, None])", "(child_probs)", TREE,
    ),
    Mutant(
        "a drafted level sees the row above it, not its parent's",
        "tree.py", "torch.cat([seen[above], itself], 1)", "torch.cat([seen, itself], 1)", TREE,
    ),
    Mutant("parents are mixed up", "tree.py", "best // breadth", "best % breadth", TREE),
    Mutant(
        "a fixed tree is chosen by probability",
        "tree.py", "if static else None", "if False else None", ("drafters/test_peers.py",),
    ),
    # Cache.
    Mutant(
        "the first slots are kept, whatever the path",
        "cache.py", "if list(slots) != list(range(len(slots))):", "if False:", CACHE,
    ),
    Mutant(
        "kept slots are read one too far",
        "cache.py", "device=block.device) + self.length",
        "device=block.device).add(1).clamp(max=len(slots)) + self.length", CACHE,
    ),
    Mutant(
        "one slot too few counts as kept",
        "cache.py", "self.length += len(slots)", "self.length += len(slots) - 1", CACHE,
    ),
    Mutant(
        "one slot too many is left by truncating",
        "cache.py", "        self.length = length\n", "        self.length = length + 1\n", CACHE,
    ),
    Mutant(
        "the last layers are the first",
        "cache.py", "cut[0][len(self._views) - last :]", "cut[0][:last]", CACHE,
    ),
    Mutant(
        "LSA reads all K before all V",
        "cache.py", "permute(3, 0, 2, 1, 4)", "permute(3, 0, 1, 2, 4)", CACHE,
    ),
    # The loop.
    Mutant(
        "the root stands one position further",
        "decode.py", "position = len(prompt_ids) + count - 1", "position = len(prompt_ids) + count",
        LOOP,
    ),
    Mutant(
        "the token that ends a text is cut off",
        "decode.py", "ends[0] + 1 if ends", "ends[0] if ends", LOOP,
    ),
    Mutant(
        "one token more than asked for", "decode.py", "count >= wanted", "count > wanted", LOOP,
    ),
    Mutant(
        "a prompt may fill the whole context",
        "decode.py", "if len(prompt_ids) >= target.context:",
        "if len(prompt_ids) > target.context:", LOOP,
    ),
    Mutant(
        "drafts reach beyond the last position",
        "decode.py", "target.context - 1 - position", "target.context - position", LOOP,
    ),
    Mutant(
        "the root is emitted again",
        "decode.py", "_cut((*learnt.ids[1:], token)", "_cut((*learnt.ids, token)", LOOP,
    ),
    # Without the target, and back.
    Mutant(
        "what is left of offline text is kept where the target differs",
        "offline.py", "if agreed else []", "if True else []", OFFLINE,
    ),
    Mutant(
        "offline draws are those of the position before",
        "offline.py", "self.position + len(self.tokens) + 1", "self.position + len(self.tokens)",
        OFFLINE,
    ),
    Mutant(
        "offline text is not kept though asked for",
        "offline.py", "alone.tokens and away.keep", "alone.tokens and not away.keep", OFFLINE,
    ),
    Mutant(
        "one token more is written alone than there is room for",
        "offline.py", "len(self.tokens) < self.room", "len(self.tokens) <= self.room", OFFLINE,
    ),
    Mutant(
        "writing alone goes on after the end of the text",
        "offline.py", "and not ended", "and True", OFFLINE,
    ),
)  # fmt: skip
