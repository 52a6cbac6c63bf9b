"""The commands of `python -m moa_core`. Heavy imports wait until a command runs."""
