"""The drafter in the visitor's browser: weights, the server's end of its link, and JavaScript."""
