"""Decoding in static shapes: pieces that a GPU replays as CUDA graphs, one copy to the host each.

Whatever changes from cycle to cycle lies in tensors that keep their place: tokens, positions,
masks, how much is verified. Python decides nothing that depends on them.
"""
