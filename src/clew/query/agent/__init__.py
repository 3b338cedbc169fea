"""An agent over a collection: its tools, instructions and limits; `loop` runs a model with them."""
