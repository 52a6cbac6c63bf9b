"""The words of "How it works": steps, what popular accounts get wrong, glossary, references.

Plain text only; the page escapes it. Figures of the paper are those of assets/results/paper.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

PROMPT = "Continue the story: A brave boy found a lantern by the river."


@dataclass(frozen=True)
class Link:
    """A way into another tab, with its settings in the address.

    press  id of the button there that it presses as well; "" for none
    """

    words: str
    address: str
    press: str = ""


@dataclass(frozen=True)
class Step:
    """One step of the walk.

    text      a sentence or two each, in two paragraphs: those before and from `turn` on
    trial     what can be run in the step itself (demo.lesson.run.TRIALS); "" for none
    lead      what to do or look at in the example
    question  to be answered from the example
    """

    id: str
    title: str
    text: tuple[str, ...]
    lead: str
    question: str
    answer: str
    turn: int = 3
    trial: str = ""
    links: tuple[Link, ...] = ()


PRESSED = {"live": "run", "compare": "compare-run", "tli": "sweep-run"}  # what runs, in each tab


def link(words: str, tab: str, **settings: str | int) -> Link:
    """A link to a tab; settings as that tab reads them. One that brings a prompt also runs it."""
    press = PRESSED[tab] if "prompt" in settings else ""
    return Link(words, "?" + urlencode({"tab": tab, **settings}), press)


STEPS = (
    Step(
        "drafting",
        "Drafting",
        (
            "A language model, here called the target, writes one token per forward, and every "
            "forward reads all of its weights.",
            "A small model, the drafter, guesses several tokens ahead.",
            "It may guess more than one token at each place, so the guesses form a draft tree: the "
            "root is the newest token, which is already sure, and every path downwards is one "
            "possible continuation.",
            "Level by level, the most probable nodes are drafted further; of all nodes tried, the "
            "budget keeps those with the most probable paths.",
            "MoA has neither embeddings nor a head of its own: it uses the target’s.",
        ),
        "Draft one tree for a prompt of yours. Nothing has been checked yet.",
        "If the budget were smaller by one, which node of your tree would go?",
        "The one with the smallest probability of its whole path, in the last column. A path is "
        "never more probable than its beginning, so no node loses its parent.",
        trial="draft",
    ),
    Step(
        "verifying",
        "Verifying",
        (
            "The target reads the whole tree in one forward: each node attends to the text so far "
            "and to its own ancestors only, so no branch disturbs another.",
            "At every node the target says which token it would put next.",
            "From the root, we go down as long as a drafted child is that token: these nodes are "
            "accepted.",
            "Where no guess matches, the target’s own token is used: the bonus. All other nodes "
            "are rejected.",
            "The acceptance length τ is the number of tokens gained per target forward after the "
            "prefill, bonus included.",
        ),
        "Let the target verify the tree of the same prompt: one cycle, one forward.",
        "How many tokens would a cycle gain if the target agreed with no draft at all?",
        "One: the bonus. Your cycle gained its accepted nodes and one more. So τ is never below 1, "
        "which is the τ of plain decoding.",
        trial="verify",
    ),
    Step(
        "lossless",
        "Why it is lossless",
        (
            "In greedy decoding a draft is accepted only if it is the token that the target would "
            "have put there, so the text is the target’s own.",
            "With a temperature, the target draws a token of its own after every node, without "
            "regard to the drafts; a drafted child is accepted if it is the token drawn.",
            "If no child is, the token drawn is the bonus; trying the children in turn, as EAGLE-2 "
            "does, accepts just as often.",
            "Whatever was drafted, each token then has exactly the target’s distribution.",
            "A bad drafter costs time; it changes no word.",
            "Only rounding can: a forward over many tokens may add up in another order than one "
            "over a single token, and where two tokens are nearly tied, that can decide.",
        ),
        "Run a good drafter and a poor one on the same prompt, in the Live tab, and compare their "
        "texts; Back leads here again.",
        "The second run accepted far less. What differs in its text?",
        "Nothing: greedy text is the target’s own, whoever drafts. Only τ and the speed differ. "
        "With a temperature, too, the same seed gives the same text here.",
        links=(
            link(
                "Run MoA in Live",
                "live",
                method="moa-n1",
                prompt=PROMPT,
                tokens=96,
                temperature=0,
            ),
            link(
                "Run the n-gram lookup in Live",
                "live",
                method="ngram",
                prompt=PROMPT,
                tokens=96,
                temperature=0,
            ),
            link("Run MoA and EAGLE-2 side by side", "compare", prompt=PROMPT),
        ),
    ),
    Step(
        "observing",
        "Seeing only part: LSA",
        (
            "Seen as a Markov decision process (MDP), the state that decides the next token is all "
            "that the target holds of the text: the keys and values of every layer.",
            "A drafter that is shown less decides on a partial observation. EAGLE shows it one "
            "vector a token, the target’s last hidden state.",
            "MoA shows it the keys and values of all layers: for each verified token, layer "
            "self-attention (LSA) attends over them and makes one vector, the memory.",
            "LSA reads nothing but the target, so it runs once per verified token, not once per "
            "draft.",
            "Whether all layers are worth reading depends on target and training: where drafters "
            "without LSA were recorded, the Benchmarks tab shows them, too.",
        ),
        "See which layers the drafter of this page reads: run a prompt there, then press “Look "
        "inside the drafter”. In Benchmarks, tick “Ablations” for drafters without LSA.",
        "How many layers does LSA read of each verified token?",
        "All of the target’s: the heat map has one place for each layer. EAGLE would have the "
        "last one’s output alone.",
        links=(
            link("See what LSA reads", "inside"),
            link("Open Benchmarks", "benchmarks"),
        ),
    ),
    Step(
        "training",
        "Trained on what it will meet: CA",
        (
            "While it drafts, the drafter has memory of the verified tokens before the newest one "
            "only: over that one and the drafts the target has not run yet.",
            "Cross-attention (CA) lets each draft look into that memory, and self-attention (SA) "
            "lets it look at the text and at the drafts above it.",
            "A drafter trained with memory of every earlier token would meet, in use, something it "
            "was never trained for.",
            "So MoA trains on-policy: each training text is cut every 6 to 14 tokens, and between "
            "two cuts CA sees the memory up to the last cut only.",
            "Such a drafter is T-step bounded: for up to T tokens it needs nothing new from the "
            "target. It still drafts them one level after the other.",
        ),
        "Let it draft one chain of twelve tokens per cycle, in the Live tab, and see how far each "
        "gets.",
        "Why are the later tokens of a chain rejected more often than the first ones?",
        "A draft counts only if all drafts before it were right, and the memory ends before the "
        "first of them. The Benchmarks tab has the acceptance for each draft position.",
        links=(
            link(
                "Run chains of twelve in Live",
                "live",
                method="moa-n1",
                prompt=PROMPT,
                tokens=96,
                depth=12,
                breadth=1,
                budget=12,
            ),
            link("See where CA looks", "inside"),
        ),
    ),
    Step(
        "tli",
        "Borrowing the target’s layers: TLI",
        (
            "With Target Layer Inference (TLI), what CA gives is taken for the hidden state that "
            "enters the last N layers of the target.",
            "Those layers run on it with the target’s own weights, and read its own keys and "
            "values of the verified text; then come its norm and its head.",
            "A larger N mostly guesses better, so τ rises; but every draft level takes longer.",
            "The paper’s figures for N = 0, 1 and 3, with Llama-3-8B-Instruct on the authors’ "
            "machine: τ 4.22, 4.50 and 4.79, speed-up 1.95, 1.95 and 1.79.",
            "N is fixed at training: each stop of the slider is a drafter of its own.",
        ),
        "Sweep N on the prompt of this page, in the tab TLI.",
        "τ rises with N. How can tokens per second fall all the same?",
        "A cycle gains a little more but takes longer: each of its draft levels runs N layers of "
        "the target. Speed is tokens gained per cycle over the time of a cycle.",
        links=(link("Sweep N", "tli", prompt=PROMPT),),
    ),
    Step(
        "alone",
        "When the server is gone",
        (
            "The target may run on a server and the drafter’s own part on your machine: drafts go "
            "one way and the target’s answer comes the other.",
            "If the connection breaks, a drafter that needs nothing new for T tokens can go on "
            "alone for a while: its text is then a guess, no longer the target’s.",
            "The tab Network has such a server, and a link that you cut while text streams.",
            "Here you see how far the drafter gets by itself: a chain of drafts that is written "
            "first and checked only afterwards.",
        ),
        "Draft twelve tokens without the target, and see what it would have said. Or cut a link.",
        "From which token on is the chain no longer the target’s own text?",
        "From the first one that differs. Where a later one is the same again, it is too late: the "
        "target was then reading the drafter’s words.",
        trial="alone",
        links=(link("Cut a link in Network", "network"),),
    ),
)

WRONG = (
    (
        "“If the tokens do not match, the whole draft is thrown away.”",
        "No: the longest accepted path stays, and the target adds a token of its own.",
    ),
    (
        "“TLI means aiming at earlier layers, which is faster.”",
        "No: N > 0 adds the last N target layers to every draft level. More is accepted, and "
        "drafting is slower.",
    ),
    (
        "“T-step bounded means up to T tokens in a single pass.”",
        "No: the drafter works level by level. It means that it needs nothing new from the target "
        "for up to T tokens.",
    ),
    (
        "“Their τ is larger than yours.”",
        "It may be counted differently: some sources leave out the bonus token. Here it is "
        "included.",
    ),
)

TODAY = (
    "MoA is compared with EAGLE-2 here because its paper did so. EAGLE-2 is not the state of the "
    "art: EAGLE-3 (2025), then DFlash and JetSpec (2026) have since overtaken it. That MoA beats "
    "EAGLE-2 somewhere would not make it the best method today."
)

GLOSSARY = (
    ("target", "the large model whose text is wanted"),
    ("drafter", "the small model that guesses ahead"),
    ("draft tree", "the guesses: nodes below the newest token, the root"),
    ("depth, breadth, budget", "levels drafted; nodes drafted further per level; nodes kept"),
    ("prefill", "the target’s first forward, over the whole prompt"),
    ("verification", "one target forward over the tree, and the target’s choice at each node"),
    ("accepted, rejected", "a drafted node on the path that the target chooses; any other node"),
    ("bonus token", "the target’s own token after the last accepted node"),
    ("cycle", "one draft and one verification"),
    (
        "acceptance length τ",
        "tokens gained per target forward after the prefill, bonus included; a last cycle whose "
        "end is cut off counts whole",
    ),
    (
        "acceptance rate",
        "accepted drafts of all drafted nodes; a wider tree lowers it even where τ rises",
    ),
    ("acceptance per position", "share of cycles that accept at least so many drafts"),
    ("speed-up", "tokens per second over plain decoding’s, on one prompt and one machine"),
    ("greedy, temperature", "the target takes its most probable token, or draws one at random"),
    ("lossless", "the text, or its distribution, is exactly the target’s own"),
    ("LSA", "layer self-attention: condenses what all target layers hold of a token"),
    (
        "memory",
        "what LSA makes of a verified token: one vector. The paper keeps the mean over the layers, "
        "the bundled drafters the last layer’s row",
    ),
    ("SA", "self-attention of the drafter over text and drafts"),
    ("CA", "cross-attention of the drafter into the memory"),
    ("TLI N", "target layer inference: the drafter also runs the target’s last N layers"),
    ("auto N", "N chosen anew in each cycle, from what each N gained and took so far"),
    ("on-policy", "trained on the situation that it will meet in use"),
    ("T-step bounded", "needs nothing new from the target for up to T tokens"),
    ("vanilla", "plain decoding: the target alone, one token per forward"),
)

ARXIV = "https://arxiv.org/abs/"
REFERENCES = (  # arXiv number, title, why it is here
    ("2410.03804", "Mixture of Attentions For Speculative Decoding", "the method of this page"),
    ("2211.17192", "Fast Inference from Transformers via Speculative Decoding", "speculative "
     "decoding, and why it is lossless"),
    ("2302.01318", "Accelerating Large Language Model Decoding with Speculative Sampling",
     "the same idea, found at the same time"),
    ("2401.10774", "Medusa", "several heads on the target instead of a drafter"),
    ("2401.15077", "EAGLE", "drafting from the target’s last hidden state"),
    ("2406.16858", "EAGLE-2", "the tree that follows the drafter’s probabilities; the baseline"),
    ("2402.02082", "GLIDE with a CaPE", "a drafter that reads the target’s last keys and values"),
    ("2402.08644", "Tandem Transformers", "a small model that reads a large one’s representations"),
    ("2503.01840", "EAGLE-3", "newer: has overtaken EAGLE-2"),
    ("2602.06036", "DFlash", "newer: drafts a block in parallel"),
    ("2606.18394", "JetSpec", "newer: parallel drafting of a tree"),
    ("2606.25091", "Speculation at a Distance", "when splitting drafter and target over a network "
     "pays, and when it does not"),
)  # fmt: skip
