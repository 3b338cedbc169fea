"""From a query to hits: retrieval, the combinators, the named strategies."""
