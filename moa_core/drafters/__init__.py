"""Drafters: one file a method, all behind the interface in base.py."""
