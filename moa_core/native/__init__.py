"""Drafting by kernels compiled for the processor at hand, where numba is installed.

A draft may be reckoned in any way, since no text can tell; so this is for drafters alone. The
target stays torch's, to the bit. Everything here has its like in torch, which is used
for long inputs, for other devices and formats, and until the kernels are there.
"""
