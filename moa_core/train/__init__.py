"""Training: text, tasks and tokenizer, and what is made of them."""
