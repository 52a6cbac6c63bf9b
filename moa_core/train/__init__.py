"""Training of drafters: text, losses, and the loop."""
