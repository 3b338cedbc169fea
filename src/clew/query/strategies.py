"""The named strategies, one sentence each over the combinators.

A maker takes what a strategy may use and gives the strategy; your own joins by its name:
`Engine.open(…, strategies={"mine": maker})`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from clew.core.protocols import Embedder, Fuse, Store, Strategy
from clew.core.settings import Settings
from clew.core.types import Hit, Query
from clew.query import retrieve
from clew.query.compose import fused
from clew.query.fuse import convex, rrf


@dataclass(frozen=True, slots=True)
class Drivers:
    """What a strategy may use."""

    store: Store
    embedder: Embedder
    settings: Settings


Maker = Callable[[Drivers], Strategy]


def semantic(drivers: Drivers) -> Strategy:
    """By meaning."""
    return alone(_semantic(drivers), drivers)


def lexical(drivers: Drivers) -> Strategy:
    """By words."""
    return alone(_lexical(drivers), drivers)


def hybrid(drivers: Drivers) -> Strategy:
    """By meaning and by words, fused."""
    return fused(_semantic(drivers), _lexical(drivers), by=fusion(drivers.settings))


STRATEGIES: Mapping[str, Maker] = {"semantic": semantic, "lexical": lexical, "hybrid": hybrid}


def fusion(settings: Settings) -> Fuse:
    """The fusion of a semantic and a lexical ranking that the settings ask for."""
    weight = settings.search.semantic_weight
    if settings.search.fusion == "rrf":
        return rrf(weight, 1 - weight, k=settings.search.rrf_k, by="hybrid")
    return convex(weight, 1 - weight, by="hybrid")


def alone(strategy: Strategy, drivers: Drivers) -> Strategy:
    """A single ranking, which asks for a few times `k` instead of the depth that fusion needs."""

    def search(query: Query) -> list[Hit]:
        return strategy(replace(query, depth=max(query.k * drivers.settings.search.overfetch, 15)))

    return search


def _semantic(drivers: Drivers) -> Strategy:
    search = drivers.settings.search
    return retrieve.semantic(
        drivers.store,
        drivers.embedder,
        mode=search.mode,
        nprobe=search.nprobe,
        min_similarity=search.min_similarity,
    )


def _lexical(drivers: Drivers) -> Strategy:
    return retrieve.lexical(drivers.store, language=drivers.settings.ingestion.language)
