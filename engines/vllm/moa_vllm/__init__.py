"""Mixture of Attentions (arXiv 2410.03804) as a drafter in vLLM: see docs/vllm.md."""

__all__ = ["MoAProposer"]


def __getattr__(name: str) -> object:
    if name == "MoAProposer":  # only now, since it imports vLLM
        from moa_vllm.proposer import MoAProposer

        return MoAProposer
    raise AttributeError(name)
