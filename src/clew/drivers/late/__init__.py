"""Late interaction: the token vectors of texts, small enough to keep beside the index, and how well a query's match."""
