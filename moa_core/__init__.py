"""Speculative decoding with Mixture of Attentions: targets, drafters, one decode loop, traces."""
