"""Query rewriting before the search: variations, transformer, expansion by the conversation, routing to a strategy."""
