"""Drafters handed over: to the authors' code, to their vLLM, to transformers, to speculators."""
