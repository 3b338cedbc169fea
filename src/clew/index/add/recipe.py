"""How the settings want documents to become chunks: the parts of the write path, chosen and put together."""

from functools import partial

from clew.core.errors import DriverFailed, NotFound
from clew.core.ids import digest
from clew.core.protocols import LLM, Embedder, Enricher, Store
from clew.core.report import Failure
from clew.core.settings import Settings
from clew.core.types import Document
from clew.index.add.prepare import Recipe
from clew.index.chunk import chunker
from clew.index.enrich.context import Complain, contexts_of, contextual, placed
from clew.index.enrich.summary import extract, written

READING = "3"  # changed when the same file would now be read or cut differently, so that the next add does it again


def recipe(settings: Settings, *, embedder: Embedder, llm: LLM | None, store: Store, complain: Complain) -> Recipe:
    """What the settings ask for; a model writes contexts and summaries, and what it fails at is complained of."""
    config = settings.ingestion
    shape = (config.chunk_size, config.chunk_overlap, config.use_semantic_chunking, config.language, settings.threads)
    enriched = (llm.name if llm else "placed") if config.use_contextual_enrichment else ""
    return Recipe(
        chunker=chunker(config, embedder.count, settings.threads),
        embedder=embedder,
        language=config.language,
        key=digest(READING, embedder.name, repr(shape), enriched),
        enrich=_enricher(settings, llm, store, complain) if config.use_contextual_enrichment else None,
        summarise=partial(summarise, llm=llm, complain=complain) if config.summaries else None,
    )


def summarise(document: Document, *, llm: LLM | None, complain: Complain) -> str:
    """The summary of a document, by the model where there is one; empty where it failed, which is complained of."""
    if llm is None:
        return extract(document)
    try:
        return written(document, llm)
    except DriverFailed as error:
        complain(Failure(document.uri or document.id, f"no summary: {error}"))
        return ""


def _enricher(settings: Settings, llm: LLM | None, store: Store, complain: Complain) -> Enricher:
    if llm is None:
        return placed()

    def recall(doc_id: str) -> dict[str, str]:
        try:
            return contexts_of(store.chunks(doc_id))
        except NotFound:  # it is new
            return {}

    return contextual(
        llm,
        recall=recall,
        complain=complain,
        max_concurrent=settings.ingestion.max_concurrent,
        window=settings.llm.window,
    )
