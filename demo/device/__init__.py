"""The drafter in the visitor's browser: its weights, its end of the link, and its JavaScript."""
