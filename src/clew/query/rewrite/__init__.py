"""The question before the search: split into queries, varied, expanded with the conversation, routed to a strategy."""
