"""Operations on rankings of hits: fusion, deduplication, diversity, thread smoothing, relevance."""
