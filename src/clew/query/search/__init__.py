"""Search, from a query to hits: first-stage retrieval, the combinators, the named strategies."""
