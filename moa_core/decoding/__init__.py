"""The decode loop: draft trees, verification, events."""
