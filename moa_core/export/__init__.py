"""Drafters handed over to transformers."""
