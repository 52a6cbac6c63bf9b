"""Breaks of what is computed: the target's forward, the layers, each drafter."""

from tests.mutants.mutant import Mutant

TARGET = ("test_target.py",)
LAYERS = ("test_target.py", "test_parity_moa.py")
JOINED = ("test_joined.py",)
KERNELS = ("native/test_chains.py",)
DRAFTING = ("native/test_levels.py",)
MOA = ("test_parity_moa.py", "drafters/test_moa.py")
LAST = ("test_attention.py", "drafters/test_moa.py")  # the pool of the bundled drafters
TLI = ("test_parity_moa.py", "test_lossless.py")
EAGLE = ("test_parity_eagle.py",)
PEERS = ("drafters/test_peers.py",)
AUTO = ("drafters/test_auto.py",)

MUTANTS = (
    # The target.
    Mutant(
        "a tree's nodes stand one position further",
        "target.py", "[past + depth for depth", "[past + depth + 1 for depth", TARGET,
    ),
    Mutant(
        "all nodes of a tree stand where the root does",
        "target.py", "[past + depth for depth", "[past for depth", TARGET,
    ),
    Mutant(
        "every node sees the whole tree",
        "target.py", "tree.ancestors()]", "torch.ones(len(tree), len(tree), dtype=torch.bool)]",
        TARGET,
    ),
    Mutant(
        "hidden states of the first nodes are kept, whatever the path",
        "target.py", "self._pending[torch.tensor(kept,",
        "self._pending[torch.tensor(range(len(kept)),", TARGET,
    ),
    Mutant(
        "no final norm after the last layers in training",
        "target.py", "return self.decoder.norm(hidden).to(self.device)",
        "return hidden.to(self.device)", TARGET,
    ),
    Mutant(
        "TLI runs the first layers in training",
        "target.py", "self.layers[len(self.layers) - last :]", "self.layers[:last]",
        (*TARGET, "train/test_parity_training.py"),
    ),
    Mutant(
        "a sliding window does not end the context",
        "target.py", ", *windows])", "])", TARGET,
    ),
    # Layers.
    Mutant(
        "RoPE turns the other way",
        "layers.py", "torch.cat([-sin, sin], -1)", "torch.cat([sin, -sin], -1)", LAYERS,
    ),
    Mutant(
        "RoPE is not scaled",
        "layers.py", "table * float(self._source.attention_scaling)", "table",
        TARGET,
    ),
    Mutant(
        "attention's input is not added to its output",
        "layers.py", "self.self_attn.out.added(hidden, mixed)", "self.self_attn.out(mixed)", LAYERS,
    ),
    Mutant(
        "gate and up are mixed up", "layers.py", "gate, up = ", "up, gate = ", LAYERS,
    ),
    Mutant(
        "V comes before K where both are joined",
        "layers.py", "Joined(self.q_proj, self.k_proj, self.v_proj,",
        "Joined(self.q_proj, self.v_proj, self.k_proj,", LAYERS,
    ),
    Mutant(
        "a row sees one token too few", "layers.py", "mask.tril(past)", "mask.tril(past - 1)",
        LAYERS,
    ),
    Mutant(
        "drafts do not see the text",
        "layers.py", "F.pad(seen, (known, 0), value=True)", "F.pad(seen, (known, 0), value=False)",
        LAYERS,
    ),
    Mutant(
        "Q, K and V go past the input norm",
        "layers.py", "Joined(self.q_proj, self.k_proj, self.v_proj, norm=norm)",
        "Joined(self.q_proj, self.k_proj, self.v_proj)", MOA,
    ),
    Mutant(
        "Qwen3's norm of K is left out",
        "layers.py", "self.q_norm(queries), self.k_norm(keys)", "self.q_norm(queries), keys",
        TARGET,
    ),
    # Joined matrices.
    Mutant(
        "trained weights are not noticed",
        "native/packing.py", "0 if weight.is_inference() else weight._version", "0", JOINED,
    ),
    Mutant(
        "the bias of the first layers is used for the later ones",
        "joined.py", "bias[skipped:]", "bias[: len(bias) - skipped]", JOINED,
    ),
    Mutant(
        "a norm's weights are left out of the matrix behind it",
        "joined.py", "weight * (norm.weight.detach() * norm.scale)", "weight * norm.scale", JOINED,
    ),
    Mutant(
        "a norm whose weights were trained is not noticed",
        "joined.py", "linears if norm is None else (*linears, norm)", "linears", JOINED,
    ),
    Mutant(
        "the bias is left out of what is added",
        "joined.py", "base = base + bias", "base = base", JOINED,
    ),
    # Compiled kernels.
    Mutant(
        "a kernel's node sees what is not above it",
        "native/layers.py", "if not seen[r, s]:", "if False:", KERNELS,
    ),
    Mutant(
        "a kernel's row of the text sees those after it",
        "native/layers.py", "count - n + r + 1 if text else count", "count", KERNELS,
    ),
    Mutant(
        "a kernel's rows of the text stand at one position",
        "native/kernels.py", "count = n if text else 1", "count = 1", KERNELS,
    ),
    Mutant(
        "whole numbers overflow",
        "native/products.py", "2**24 // inner", "2**26 // inner", KERNELS,
    ),
    Mutant(
        "whole numbers have eight bits",
        "native/products.py", "min(32767, ", "min(127, ", KERNELS,
    ),
    Mutant(
        "arrays in pieces go to a kernel",
        "native/chains.py", "np.ascontiguousarray(hidden.numpy()[0])", "hidden.numpy()[0]", KERNELS,
    ),
    Mutant(
        "a kernel turns the newest keys alone",
        "native/layers.py", "turn(keys, turned, min(done, start), start + n)",
        "turn(keys, turned, start, start + n)", KERNELS,
    ),
    Mutant(
        "turned keys outlive those they were made of",
        "cache.py", "held.done[0] = min(held.done[0], self.length)", "pass", KERNELS,
    ),
    Mutant(
        "a kernel's third row is left out",
        "native/products.py", "dots(rows, r, 4,", "dots(rows, r, 2,", KERNELS,
    ),
    Mutant(
        "a kernel gives all layers one position in LSA",
        "native/layers.py", "rotate(own, groups, size, cos, sin)",
        "rotate(own, groups, size, cos[:1], sin[:1])", KERNELS,
    ),
    Mutant(
        "a kernel takes logits for log-probabilities",
        "native/kernels.py", "found[place] -= whole", "found[place] -= found[0]", KERNELS,
    ),
    Mutant(
        "a kernel's norm knows no eps",
        "native/layers.py", "total / F(width) + F(eps)", "total / F(width)", KERNELS,
    ),
    Mutant(
        "a kernel's last slots count for nothing",
        "native/layers.py", "for s in range(eights, count):", "for s in range(count, count):",
        KERNELS,
    ),
    Mutant(
        "compiled, EAGLE's drafts stand one further",
        "drafters/eagle.py", "self._chain(both, past, start,", "self._chain(both, past, start + 1,",
        DRAFTING,
    ),
    Mutant(
        "compiled, an independent drafter's drafts stand one further",
        "drafters/independent.py", "past, start, seen=seen)", "past, start + 1, seen=seen)",
        DRAFTING,
    ),
    Mutant(
        "compiled, drafts of a level see each other in SA",
        "drafters/moa.py", "(self.target.rows(tokens), past, start, seen=seen)",
        "(self.target.rows(tokens), past, start, seen=seen if seen is None else seen | True)",
        DRAFTING,
    ),
    Mutant(
        "compiled, TLI never serves",
        "drafters/moa.py", "if ready(self._tail, count):", "if False:", DRAFTING,
    ),
    Mutant(
        "other weights are never looked for again",
        "native/packing.py", "if marks != self._known:", "if not self._packed:", KERNELS,
    ),
    # MoA.
    Mutant(
        "all layers have one position in LSA",
        "drafters/moa.py", "layer_rope.span(0, count, vectors)", "layer_rope.span(0, 1, vectors)",
        MOA,
    ),
    Mutant(
        "LSA's last row stands where the first layer does",
        "drafters/moa.py", "layer_rope.span(count - 1, count, vectors)",
        "layer_rope.span(0, 1, vectors)", LAST,
    ),
    Mutant(
        "LSA's first row is taken for its last",
        "drafters/moa.py", "lsa.attend(vectors[:, -1:]", "lsa.attend(vectors[:, :1]", LAST,
    ),
    Mutant(
        "LSA's last row is taken for the mean",
        "drafters/moa.py", "lsa(vectors, rotation).mean(1)", "lsa(vectors, rotation)[:, -1]", MOA,
    ),
    Mutant(
        "a draft asks CA from one position before",
        "drafters/moa.py", "self.ca_rope.span(position, position + 1, hidden)",
        "self.ca_rope.span(position - 1, position, hidden)", MOA,
    ),
    Mutant(
        "memory of later tokens stands at the text's start",
        "drafters/moa.py", "span(start, start + count", "span(0, count", MOA,
    ),
    Mutant(
        "a drafted level stands where its parent does",
        "drafters/moa.py", "position = len(self.ids) + frontier.level",
        "position = len(self.ids) + frontier.level - 1", MOA,
    ),
    Mutant(
        "drafts of a level see each other",
        "layers.py", "tree_mask(seen, past", "tree_mask(torch.ones_like(seen), past", MOA,
    ),
    Mutant(
        "TLI keeps the root's drafted K and V",
        "drafters/moa.py", "self.tail.truncate(known)", "self.tail.truncate(known + 1)", TLI,
    ),
    Mutant(
        "TLI is given K and V of the first layers",
        "drafters/moa.py", "observation.keys_values(last=self.tli)",
        "observation.keys_values()[: self.tli]", TLI,
    ),
    Mutant(
        "TLI runs one layer too few",
        "drafters/moa.py", "mask, tail, self.tli)", "mask, tail, max(1, self.tli - 1))",
        TLI,
    ),
    Mutant(
        "the target's scaled RoPE goes into CA as well",
        "drafters/moa.py", "Rope(sizes.ca.head_dim, plain,", "Rope(sizes.ca.head_dim, parameters,",
        MOA,
    ),
    # The others.
    Mutant(
        "a drafted level of a reader stands one further",
        "drafters/base.py", "len(self.ids) + frontier.level, frontier.seen",
        "len(self.ids) + frontier.level + 1, frontier.seen", PEERS,
    ),
    Mutant(
        "EAGLE's drafted level stands one further",
        "drafters/eagle.py", "self._known + frontier.level - 1", "self._known + frontier.level",
        EAGLE,
    ),
    Mutant(
        "EAGLE's nodes all go on from the first feature",
        "drafters/eagle.py", "self._level[:, frontier.parents]",
        "self._level[:, frontier.parents * 0]", EAGLE,
    ),
    Mutant(
        "EAGLE joins feature and embedding the wrong way round",
        "drafters/eagle.py", "[embedded, features]", "[features, embedded]", EAGLE,
    ),
    Mutant(
        "Medusa's heads all read the first one's place",
        "drafters/medusa.py", "logits[frontier.level].expand", "logits[0].expand", PEERS,
    ),
    Mutant(
        "prompt lookup tries the shortest suffix first",
        "drafters/ngram.py", "range(min(self.longest, len(text) - 1), 0, -1)",
        "range(1, min(self.longest, len(text) - 1) + 1)", PEERS,
    ),
    Mutant(
        "auto N forgets the round trip",
        "drafters/auto.py", "self._seconds(name) + self.round_trip", "self._seconds(name)", AUTO,
    ),
    Mutant(
        "auto N gives who was away the wrong tokens",
        "drafters/auto.py", "observation.start - len(missed)", "observation.start", AUTO,
    ),
    Mutant(
        "auto N counts every cycle as one token",
        "drafters/auto.py", "known.tokens += gained", "known.tokens += 1", AUTO,
    ),
)  # fmt: skip
