"""The components of the write path, and the recipe made from them: chunker, enrichers, summariser, fingerprint."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from clew.core.errors import NotFound, SettingsError, SourceError
from clew.core.ids import digest
from clew.core.protocols import LLM, Chunker, Embedder, Enricher, Reader, WritableStore
from clew.core.report import OnWarning, PassedOver, SourceFailure
from clew.core.settings import Settings
from clew.core.types import Chunk, Document
from clew.core.usage import CostBudget, Price, look_up_price
from clew.index.add.prepare import Recipe
from clew.index.add.sections import SectionTracker
from clew.index.chunk import make_chunker
from clew.index.chunk.build import get_component_name, make_validating_enricher
from clew.index.enrich.context import collect_llm_contexts, make_heading_enricher, make_llm_enricher
from clew.index.enrich.summary import Summariser
from clew.index.walk.ignore import WalkRules
from clew.index.walk.sources import Found, Location, Source, discover_sources, make_sources
from clew.index.walk.sync import MovedFiles

VERSION = "6"  # increase when reading or chunking changes, so that the next `add` processes all files again


@dataclass(frozen=True, slots=True)
class IngestContext:
    """The parts of the write path: store, models, settings, and the caller's own components.

    root: The folder to which the uris of files are relative.
    is_upload: The files are uploaded and will be deleted.
    chunker: Replaces the built-in chunker of pages.
    enrichers: Run after the built-in one.
    readers: By suffix, preferred to the built-in ones.
    """

    store: WritableStore
    embedder: Embedder
    llm: LLM | None
    settings: Settings
    root: Path
    is_upload: bool = False
    chunker: Chunker | None = None
    enrichers: Sequence[Enricher] = ()
    readers: Mapping[str, Reader] = field(default_factory=dict)

    def make_budget(self, limit: float | None = None) -> CostBudget:
        """Make a budget with the prices of the settings."""
        prices = {self.embedder.name: Price(self.settings.embedder.price)}
        if self.llm:
            prices[self.llm.name] = look_up_price(self.settings.llm, self.llm.name)
        return CostBudget(prices, limit)

    def make_recipe(
        self, *, embedder: Embedder, llm: LLM | None, on_warning: OnWarning, moved: MovedFiles | None = None
    ) -> Recipe:
        """Make the recipe from the settings and the caller's own components, with these models."""
        return make_recipe(
            self.settings,
            embedder=embedder,
            llm=llm,
            store=self.store,
            on_warning=on_warning,
            chunker=self.chunker,
            enrichers=self.enrichers,
            moved=moved,
        )

    def discover(
        self, locations: Sequence[Location], rules: WalkRules, passed_over: list[PassedOver]
    ) -> Iterator[Found]:
        """Discover the sources at the locations, appending excluded entries to `passed_over`."""
        return discover_sources(
            locations,
            readers=self.readers,
            rules=rules,
            root=self.root,
            on_passed_over=passed_over.append,
        )

    def make_sources(self, found: Iterable[Found], on_warning: OnWarning) -> Iterator[Source | SourceError]:
        """Make a Source for each file, web page and thread."""
        made = make_sources(found, root=self.root, settings=self.settings, readers=self.readers, on_warning=on_warning)
        if not self.is_upload:
            return made
        return (replace(each, stamp="") if isinstance(each, Source) else each for each in made)  # the files go away

    def split_or_track(
        self, sources: Iterable[Source | SourceError], tracker: SectionTracker, *, llm: LLM | None
    ) -> Iterator[Source | SourceError]:
        """Return the sources, or their sections if the settings ask for them."""
        if not self.settings.ingestion.sections:
            return tracker.track_sources(sources)
        recipe = self.make_recipe(embedder=self.embedder, llm=llm, on_warning=ignore_warning)
        return tracker.split_sources(sources, store=self.store, fingerprint=recipe.fingerprint)


def ignore_warning(_: SourceFailure) -> None:
    """Ignore a warning (an `on_warning` callback)."""


def make_recipe(
    settings: Settings,
    *,
    embedder: Embedder,
    llm: LLM | None,
    store: WritableStore,
    on_warning: OnWarning,
    chunker: Chunker | None = None,
    enrichers: Sequence[Enricher] = (),
    moved: MovedFiles | None = None,
) -> Recipe:
    """Make the recipe (chunker, enricher, summariser, fingerprint) from the settings, with `llm` if they ask for one.

    Failures of `llm` become warnings. `chunker` replaces the built-in chunker of pages; `enrichers` run after the
    built-in one. `moved` finds the stored documents of moved files.
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
    """Raise SettingsError if a model should write the summaries and there is none."""
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
    """Make a digest of everything that decides how a document is chunked and embedded.

    Options added since the first release count only if used, so that older collections stay unchanged.
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
    store: WritableStore,
    on_warning: OnWarning,
    custom: Sequence[Enricher],
    failed: set[str],
    moved: MovedFiles | None,
) -> Enricher | None:
    """Chain the built-in enricher, if it is on, and the custom ones; None if there are none.

    The enricher adds the ids of documents whose contexts the model failed to write to `failed`.
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


def _load_stored_contexts(store: WritableStore, moved: MovedFiles | None, doc_id: str) -> dict[str, str]:
    """Load the contexts of the stored chunks of a document or, for a moved file, of its former document."""
    try:
        return collect_llm_contexts(store.chunks(moved.former.get(doc_id, doc_id) if moved else doc_id))
    except NotFound:
        return {}
