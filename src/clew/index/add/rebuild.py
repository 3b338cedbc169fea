"""Makes again what can be made from a document's text: its chunks with their vectors and terms, and its summary."""

from clew.core.protocols import Store
from clew.index.add.pipeline import store_document
from clew.index.add.prepare import Prepared, Recipe
from clew.index.enrich.summary import Summariser, Summary


def rebuild_chunks(doc_id: str, *, store: Store, recipe: Recipe) -> None:
    """Cuts and embeds a stored document again and replaces its chunks; its summary stays, with its vector."""
    document = store.document(doc_id)
    summary = Summary(document.summary, document.summary_by)
    prepared = Prepared(document, recipe.chunker(document), summary=summary)
    store_document(prepared, {}, store, recipe, instead_of=document.text)
    store.embed_pending(recipe.embedder, documents=[doc_id])


def rebuild_summary(doc_id: str, *, store: Store, recipe: Recipe) -> None:
    """Embeds the stored summary of a document again; one that has none gets an extract of its text."""
    document = store.document(doc_id)
    summary = Summary(document.summary, document.summary_by)
    if not summary.text:
        summary = Summariser().summarise(document)
    store.summarise(doc_id, summary.text, by=summary.by, expected_text=document.text)
    store.embed_pending(recipe.embedder, documents=[doc_id])
