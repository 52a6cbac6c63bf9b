"""Fuzzing with atheris, by hand: `python -m tests.fuzz wire --seconds 600`. Not part of pytest."""
