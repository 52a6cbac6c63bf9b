"""Drafters: one file per method, with the interface in base.py."""
