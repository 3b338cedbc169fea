"""The recipe: which chunker, enrichers and summariser the settings and the caller ask for."""

from collections.abc import Sequence
from functools import partial

from clew.core.errors import NotFound, SettingsError
from clew.core.ids import digest
from clew.core.protocols import LLM, Chunker, Embedder, Enricher, Store
from clew.core.report import OnWarning
from clew.core.settings import Settings
from clew.core.types import Chunk, Document
from clew.index.add.moved import MovedFiles
from clew.index.add.prepare import Recipe
from clew.index.chunk import make_chunker
from clew.index.chunk.custom import get_component_name, make_validating_enricher
from clew.index.enrich.context import collect_llm_contexts, make_heading_enricher, make_llm_enricher
from clew.index.enrich.summary import Summariser

VERSION = "6"  # increased when the same file is read or chunked differently, so that the next `add` does it again


def make_recipe(
    settings: Settings,
    *,
    embedder: Embedder,
    llm: LLM | None,
    store: Store,
    on_warning: OnWarning,
    chunker: Chunker | None = None,
    enrichers: Sequence[Enricher] = (),
    moved: MovedFiles | None = None,
) -> Recipe:
    """The recipe (chunker, enricher, summariser, fingerprint) of the settings; `llm` writes what they ask it for.

    Failures of `llm` are reported as warnings. `chunker` replaces the built-in chunker of pages; `enrichers` run after
    the built-in one. `moved` finds what the files that were moved have stored.
    """
    config, failed = settings.ingestion, set[str]()
    summariser = Summariser(llm, config.max_concurrent) if config.summaries == "llm" else Summariser()
    return Recipe(
        chunker=make_chunker(config, embedder.count, settings.threads, page_chunker=chunker),
        embedder=embedder,
        language=config.language,
        fingerprint=_make_recipe_fingerprint(settings, embedder, llm, chunker, enrichers),
        on_warning=on_warning,
        enricher=_make_enricher_chain(settings, llm, store, on_warning, enrichers, failed, moved),
        summariser=summariser if config.summaries != "none" else None,
        failed_contexts=failed,
        moved=moved,
    )


def check_summary_model(settings: Settings, llm: LLM | None) -> None:
    """Raises SettingsError if a model is to make the summaries and there is none."""
    if settings.ingestion.summaries == "llm" and llm is None:
        raise SettingsError(
            'ingestion.summaries is "llm", and there is no language model; set llm.name, or '
            'ingestion.summaries = "extractive"'
        )


def _make_recipe_fingerprint(
    settings: Settings,
    embedder: Embedder,
    llm: LLM | None,
    chunker: Chunker | None,
    enrichers: Sequence[Enricher],
) -> str:
    """A digest of all that decides how a document is chunked and embedded.

    Options added since the first release count only where they are used, so that older collections stay unchanged.
    """
    config = settings.ingestion
    sizes = (config.chunk_size, config.chunk_overlap, config.use_semantic_chunking, config.language, settings.threads)
    context = (llm.name if llm else "placed") if config.use_contextual_enrichment else ""
    later = ["quality_filter"] if config.quality_filter else []
    later += [f"chunker {get_component_name(chunker)}"] if chunker else []
    later += [f"enricher {get_component_name(enricher)}" for enricher in enrichers]
    return digest(VERSION, embedder.name, repr(sizes), context, *later)


def _make_enricher_chain(
    settings: Settings,
    llm: LLM | None,
    store: Store,
    on_warning: OnWarning,
    custom: Sequence[Enricher],
    failed: set[str],
    moved: MovedFiles | None,
) -> Enricher | None:
    """The built-in enricher, if it is on, and then the custom ones; None where there are none.

    The ids of documents of which the model failed to write a context are added to `failed`.
    """
    steps: list[Enricher] = []
    if settings.ingestion.use_contextual_enrichment:
        steps.append(
            make_llm_enricher(
                llm,
                recall=partial(_load_stored_contexts, store, moved),
                on_warning=on_warning,
                on_failure=failed.add,
                max_concurrent=settings.ingestion.max_concurrent,
                window=settings.llm.window,
                keep_copy=bool(custom),
            )
            if llm
            else make_heading_enricher()
        )
    steps += [make_validating_enricher(enricher) for enricher in custom]

    def enrich(document: Document, chunks: list[Chunk]) -> list[Chunk]:
        for step in steps:
            chunks = step(document, chunks)
        return chunks

    return enrich if steps else None


def _load_stored_contexts(store: Store, moved: MovedFiles | None, doc_id: str) -> dict[str, str]:
    """The contexts that the stored chunks of a document have, empty for a new one whose file was not moved."""
    try:
        return collect_llm_contexts(store.chunks(moved.former.get(doc_id, doc_id) if moved else doc_id))
    except NotFound:
        return {}
