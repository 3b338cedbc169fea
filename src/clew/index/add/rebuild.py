"""Makes again what can be made from a document's text: its chunks with their vectors and terms, and its summary."""

from clew.core.protocols import Store
from clew.index.add.embed import embed_chunks_and_summaries
from clew.index.add.pipeline import store_document
from clew.index.add.prepare import Prepared, Recipe
from clew.index.enrich.summary import Summariser, Summary


def rebuild_chunks(doc_id: str, *, store: Store, recipe: Recipe) -> None:
    """Cuts and embeds a stored document again and replaces its chunks; its summary stays, and gets a new vector."""
    document = store.document(doc_id)
    summary = Summary(document.summary, document.summary_by)
    prepared = Prepared(document, recipe.chunker(document), summary=summary)
    vectors = embed_chunks_and_summaries([prepared], {}, recipe.embedder)
    store_document(prepared, vectors, store, recipe, instead_of=document.text)


def rebuild_summary(doc_id: str, *, store: Store, recipe: Recipe) -> None:
    """Embeds the stored summary of a document again; one that has none gets an extract of its text."""
    document = store.document(doc_id)
    summary = Summary(document.summary, document.summary_by)
    if not summary.text:
        summary = Summariser().summarise(document)
    vector = recipe.embedder.embed([summary.text], role="passage")[0]
    store.summarise(doc_id, summary.text, vector, by=summary.by, expected_text=document.text)
