"""Makers of the bundle's training text."""
