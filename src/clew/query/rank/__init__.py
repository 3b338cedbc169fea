"""Operations on rankings of hits: fusion, deduplication, diversity, thread smoothing, balance of kinds."""
