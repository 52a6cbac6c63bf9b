"""Loads a target and its drafter by name, folder or Hub id."""
