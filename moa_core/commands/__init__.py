"""The commands of `python -m moa_core`. Each file imports what is heavy only once it runs."""
