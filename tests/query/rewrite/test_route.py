"""Routing: the table of question kinds, and the strategy that a question names itself."""

import pytest

from clew.query.rewrite.route import route_question


@pytest.mark.parametrize(
    ("text", "strategy"),
    [
        ("What is machine learning?", "hybrid"),
        ("Who rotates the signing keys?", "hybrid"),
        ("How many stations are there in the north?", "hybrid"),
        ("Tell me about Python", "multi_query"),
        ("Could you tell me more about our buoys", "multi_query"),
        ("AI ethics", "multi_query"),
        ("everything on moorings", "multi_query"),
        ("What's our complete refund policy?", "document_boost"),
        ("Show me the full text of the travel guide", "document_boost"),
        ("What are the ethical implications of our AI system?", "self_reflective"),
        ("Compare the two billing models", "self_reflective"),
        ("How does the tide affect the battery of a buoy?", "self_reflective"),
        ("What dosage is safe for a child?", "rerank"),
        ("Which clause covers termination?", "rerank"),
        ("Is lunch tax deductible?", "rerank"),
        ("I want everything you have on moss", "multi_query"),
        ("Give me the contract in full", "document_boost"),
        ("Fale-me sobre Python", "multi_query"),
        ("Me fale sobre Python", "multi_query"),
        ("Qual é a política completa de reembolso?", "document_boost"),
        ("Quais são as implicações éticas do nosso sistema?", "self_reflective"),
        ("Qual é a dosagem segura para uma criança?", "rerank"),
        ("Quem guarda as chaves do barco?", "hybrid"),
        ("Erzähl mir etwas über Bojen", "hybrid"),
        ("Erzähl mir mehr über Bojen", "multi_query"),
        ("Zeig mir den ganzen Vertrag", "document_boost"),
        ("Welche Auswirkungen hat der Sturm auf die Bojen?", "self_reflective"),
        ("Wer haftet laut Gesetz für die Boje?", "rerank"),
        ("Wer hat den Schlüssel zum Schuppen?", "hybrid"),
        ("Parle-moi des bouées", "multi_query"),
        ("Donne-moi le contrat complet", "document_boost"),
        ("Quelles sont les conséquences de la tempête ?", "self_reflective"),
        ("Quel impôt paie le port ?", "rerank"),
        ("Háblame de las boyas", "multi_query"),
        ("¿Qué sabemos sobre las boyas?", "multi_query"),
        ("Muéstrame el informe completo", "document_boost"),
        ("Parlami delle boe", "multi_query"),
        ("Vertel me over de boeien", "multi_query"),
        ("Geef me het hele handboek", "document_boost"),
    ],
)
def test_by_the_kind_of_question(text: str, strategy: str) -> None:
    found = route_question(text)
    assert found.strategy == strategy
    assert found.reason
    assert found.text == text


@pytest.mark.parametrize(
    ("text", "strategy", "rest"),
    [
        ("Search for machine learning but use multi-query approach", "multi_query", "Search for machine learning"),
        ("find the vacation policy, using reranking", "rerank", "find the vacation policy"),
        ("Who owns the vault? Use self-reflection.", "self_reflective", "Who owns the vault?"),
        ("E-4417 with keyword search", "lexical", "E-4417"),
        ("moorings via semantic search please", "semantic", "moorings please"),
        ("Use hybrid: where is the boat?", "hybrid", "where is the boat?"),
        ("Find X using the multi query strategy", "multi_query", "Find X"),
        ("Please do a multi-query search for keys", "multi_query", "keys"),
        ("who owns the vault (rerank)", "rerank", "who owns the vault"),
        ("who rotates keys? (use BM25)", "lexical", "who rotates keys?"),
        ("rerank the results: who owns the vault?", "rerank", "who owns the vault?"),
        ("With re-ranking, who owns the vault?", "rerank", "who owns the vault?"),
        ("Who owns the vault? Reflect on your results.", "self_reflective", "Who owns the vault?"),
        ("MULTI-QUERY: keys", "multi_query", "keys"),
        ("I want multi-query for keys", "multi_query", "I keys"),
        ("run a keyword search for E-4417", "lexical", "E-4417"),
        ("do a full-text search for E-4417", "lexical", "E-4417"),
        ("search semantically for keys", "semantic", "search for keys"),
        ("Suche nach Schlüsseln mit Multi-Query", "multi_query", "Suche nach Schlüsseln"),
        ("Busque as chaves com busca semântica", "semantic", "Busque as chaves"),
        ("Cherche les clés avec recherche hybride", "hybrid", "Cherche les clés"),
    ],
)
def test_by_the_words_of_the_question(text: str, strategy: str, rest: str) -> None:
    found = route_question(text)
    assert (found.strategy, found.text) == (strategy, rest)


@pytest.mark.parametrize(
    "text",
    [
        "What is a hybrid car and where is it parked?",
        "Why did the rerank job fail on Monday morning?",
        "What is multi-query retrieval and who made it?",
        "Do we use semantic search in the harbour?",
        "How is full text search done over here?",
    ],
)
def test_a_word_that_is_part_of_the_question_names_nothing(text: str) -> None:
    assert route_question(text).text == text


def test_a_long_conversation_is_cut() -> None:
    assert route_question("and the other one over there now?", history_length=100).strategy != "chunked"
    assert route_question("and the other one over there now?", history_length=101).strategy == "chunked"
