"""Drafters handed over: to their authors' code, SGLang, vLLM and transformers."""
