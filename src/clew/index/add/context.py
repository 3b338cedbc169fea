"""What the entry points of the write path work with."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from clew.core.errors import SourceError
from clew.core.protocols import LLM, Chunker, Embedder, Enricher, Reader, Store
from clew.core.report import OnWarning, PassedOver, SourceFailure
from clew.core.settings import Settings
from clew.core.usage import CostBudget, Price, look_up_price
from clew.index.add.moved import MovedFiles
from clew.index.add.prepare import Recipe, Source
from clew.index.add.recipe import make_recipe
from clew.index.add.sections import SectionTracker
from clew.index.add.sources import Found, Location, discover_sources, make_sources
from clew.index.walk.ignore import WalkRules


@dataclass(frozen=True, slots=True)
class IngestContext:
    """What the write path works with: store, models, settings, and the caller's own components, if any.

    uris of files are relative to `root`; those of an upload (`is_upload`) do not stay there. `chunker` replaces the
    built-in chunker of pages, `enrichers` run after the built-in one, `readers` (by suffix) go before the others.
    """

    store: Store
    embedder: Embedder
    llm: LLM | None
    settings: Settings
    root: Path
    is_upload: bool = False
    chunker: Chunker | None = None
    enrichers: Sequence[Enricher] = ()
    readers: Mapping[str, Reader] = field(default_factory=dict)

    def make_budget(self, limit: float | None = None) -> CostBudget:
        """A budget with nothing spent, at the prices of the settings."""
        prices = {self.embedder.name: Price(self.settings.embedder.price)}
        if self.llm:
            prices[self.llm.name] = look_up_price(self.settings.llm, self.llm.name)
        return CostBudget(prices, limit)

    def make_recipe(
        self, *, embedder: Embedder, llm: LLM | None, on_warning: OnWarning, moved: MovedFiles | None = None
    ) -> Recipe:
        """The recipe of the settings and the caller's own components, with these models."""
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
        """What is found at the locations; what the rules keep out is added to `passed_over`."""
        return discover_sources(
            locations,
            readers=self.readers,
            rules=rules,
            root=self.root,
            on_passed_over=passed_over.append,
        )

    def make_sources(self, found: Iterable[Found], on_warning: OnWarning) -> Iterator[Source | SourceError]:
        """One Source per file, web page and thread."""
        made = make_sources(found, root=self.root, settings=self.settings, readers=self.readers, on_warning=on_warning)
        if not self.is_upload:
            return made
        return (replace(each, stamp="") if isinstance(each, Source) else each for each in made)  # no file to look for

    def split_or_track(
        self, sources: Iterable[Source | SourceError], tracker: SectionTracker, *, llm: LLM | None
    ) -> Iterator[Source | SourceError]:
        """The sources, or their sections where the settings ask for them."""
        if not self.settings.ingestion.sections:
            return tracker.track_sources(sources)
        recipe = self.make_recipe(embedder=self.embedder, llm=llm, on_warning=ignore_warning)
        return tracker.split_sources(sources, store=self.store, fingerprint=recipe.fingerprint)


def ignore_warning(_: SourceFailure) -> None:
    """An `on_warning` callback that does nothing."""
