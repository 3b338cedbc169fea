"""Language models: a prompt in, text out."""
