"""LanceDB: a table with a vector column and a full-text index, `query_type="hybrid"` with its own fusion."""

import lancedb


class Side:
    def __init__(self, folder, lookup):
        self._database, self._lookup = lancedb.connect(folder), lookup

    def build(self, documents):
        self._table = self._database.create_table("documents", data=self._make_rows(documents))
        self._table.create_fts_index("text")

    def search_dense(self, query):
        vector = self._lookup.embed([query])[0]
        return [row["id"] for row in self._table.search(vector).limit(10).to_list()]

    def search_words(self, query):
        return [row["id"] for row in self._table.search(query, query_type="fts").limit(10).to_list()]

    def search_hybrid(self, query):
        vector = self._lookup.embed([query])[0]
        search = self._table.search(query_type="hybrid").vector(vector).text(query)
        return [row["id"] for row in search.limit(10).to_list()]

    def drop(self, ids):
        self._table.delete(f"id IN ({', '.join(repr(each) for each in ids)})")

    def add(self, documents):
        self._table.add(self._make_rows(documents))

    def _make_rows(self, documents):
        vectors = self._lookup.embed([text for _, text in documents])
        return [
            {"id": id_, "text": text, "vector": vector} for (id_, text), vector in zip(documents, vectors, strict=True)
        ]
