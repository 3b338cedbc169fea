"""The evidence that chunks match a query, by meaning and by words, and the relevance computed from it."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from clew.core.analyse import make_language_term
from clew.core.calibration import Calibration
from clew.core.candidates import Candidates, Ranking, ThreadPlace
from clew.core.filter import EVERYTHING, Filter
from clew.core.languages import detect_language, find_known_languages, list_scripts
from clew.core.protocols import Embedder, SearchableStore, Step
from clew.core.settings import Settings
from clew.core.small_talk import estimate_intent, has_content, is_question
from clew.core.text import Terms
from clew.core.thread import THREAD_KIND
from clew.core.trace import note, step
from clew.core.types import FOREIGN, Hit, Query, Vector
from clew.query.rank.calibrate import (
    ANSWER,
    EXPECTED_WORDS,
    MATCH,
    Evidence,
    Signal,
    estimate_answers,
    estimate_match,
    estimate_relevance,
    expect_meaning,
    sort_by_relevance,
)
from clew.query.rank.thread_smoothing import add_neighbours
from clew.query.search.analyse import QueryAnalyser

FOREIGN_TRUST = 0.25  # trust in words across languages, where hardly any text has the query's: only names match
# Factors of the weight of meaning if the embedder does not know the query's language: in a script that it knows (names
# and loan words are known), or in another script.
UNKNOWN_LANGUAGE, UNKNOWN_SCRIPT = 0.5, 0.25
FIELD_DEPTH = 32  # best chunks of each ranking that make up the field
MIN_KNOWN = 0.7  # share of a query's terms in one chunk from which no word counts as misspelt
MIN_REPEATED = 0.8  # share of a query's terms in a message that only repeats it
MAX_MORE = 16  # further terms of that message: a greeting, the reason for asking
QUESTION_MARKS = "?？؟"
QUESTION_SHARE = 0.25  # share of its relevance that it keeps: a question is not an answer
TOGETHER = 50  # chunks to search for two sets of terms together
MIN_NEW_RELEVANCE = 0.3  # of the best hit of a question on a new topic, searched by itself
MAX_TOGETHER = 0.4  # share of the conversation's words in a text with the question's words, on a new topic
KINDS = Filter(kinds=frozenset({THREAD_KIND})), Filter(kinds=frozenset({"page"}))  # neither crowds out the other


@dataclass(frozen=True, slots=True)
class Gathered:
    """The candidates of a query in columns, and the places in them that each ranking found, best first.

    near, matching: Places within the query's filter, by vector and by words; one ranking per kind.
    field: Places of the best chunks that the engine may see at all, one ranking per kind and leg.
    """

    candidates: Candidates
    near: Sequence[Sequence[int]]
    matching: Sequence[Sequence[int]]
    field: Sequence[Sequence[int]]

    def count(self, depth: int) -> int:
        """Count the candidates within the filter that are among the first `depth` of any ranking."""
        return len(list_places((*self.near, *self.matching), depth))


@dataclass(frozen=True, slots=True)
class Found:
    """The candidates of a query with their evidence and relevance, in columns.

    near, matching: Places within the query's filter, by vector and by words; one ranking per kind, best first.
    own: The relevance of each candidate by its own signals.
    answers: The chance of each candidate to answer at all, however well others match.
    relevance: The same, plus the gains of messages from their neighbours.
    threads: The position of each message in its thread, by place.
    """

    candidates: Candidates
    near: Sequence[Sequence[int]]
    matching: Sequence[Sequence[int]]
    evidence: Evidence
    own: Signal
    answers: Signal
    relevance: Signal
    threads: Mapping[int, ThreadPlace]

    def list_places(self) -> list[int]:
        """List the places of all candidates within the filter, each once."""
        return list_places((*self.near, *self.matching))

    def name_scores(self, place: int) -> dict[str, float]:
        """Return the scores of a match by name; FOREIGN is set for a chunk in another language than the query."""
        foreign = self.evidence.foreign
        expected = {FOREIGN: float(self.evidence.words[place])} if foreign is not None and foreign[place] else {}
        return {MATCH: estimate_match(self.evidence, place), ANSWER: float(self.answers[place]), **expected}


class EvidenceSource:
    """The finder and judge of candidates in a store.

    seen: All that the engine may see. Candidates are compared with its best chunks, so that the relevance of a chunk
        does not depend on the filter of a call.
    shown: The filter of the call.
    """

    def __init__(
        self,
        seen: SearchableStore,
        shown: Filter,
        embedder: Embedder,
        calibration: Calibration,
        analyser: QueryAnalyser,
        settings: Settings,
        has_messages: Callable[[], bool],
    ) -> None:
        self.embedder, self.analyser = embedder, analyser
        self._seen, self._shown, self._calibration = seen, shown, calibration
        self._settings, self._has_messages = settings, has_messages

    def judge(self, query: Query, chunk_ids: Sequence[str] = ()) -> Found:
        """Gather and weigh the candidates of a query, the given chunks among them."""
        (gathered,) = self.gather([query], query.depth, chunk_ids)
        return self.weigh(query, gathered, query.depth)

    def gather(self, queries: Sequence[Query], depth: int, chunk_ids: Sequence[str] = ()) -> list[Gathered]:
        """Gather the candidates of queries that share a filter, and the best chunks of all that the engine may see.

        If no chunk has most of a query's words, those that the collection lacks are corrected to similar ones it has.
        """
        found = self._gather(queries, depth, chunk_ids)
        poor = [
            query
            for query, each in zip(queries, found, strict=True)
            if each.candidates.shares.max(initial=0.0) < MIN_KNOWN
        ]
        corrected = [text for query in poor if (text := self.analyser.correct(query.text))]
        if corrected:
            note("did_you_mean", corrected[0])
            found = self._gather(queries, depth, chunk_ids)
        return found

    def _gather(self, queries: Sequence[Query], depth: int, chunk_ids: Sequence[str]) -> list[Gathered]:
        where, usual, kinds = self._shown & queries[0].where, self._usual_depth, self._list_kinds()
        rankings = [Ranking(kind, usual, usual) for kind in kinds]
        if where == EVERYTHING:
            rankings = [Ranking(kind, max(depth, usual), max(depth, usual)) for kind in kinds]
        else:
            rankings += [Ranking(where & kind, depth, depth) for kind in kinds]
        found = self._seen.find_candidates(
            np.stack([embed_query(query, self.embedder) for query in queries]),
            [self.extract_terms(query) for query in queries],
            rankings,
            chunk_ids,
            shown=self._shown,
            mode=self._settings.search.mode,
            breadth=self._settings.search.nprobe,
        )
        first, last = slice(len(kinds)), slice(-len(kinds), None)
        return [
            Gathered(each, each.near[last], each.matching[last], (*each.near[first], *each.matching[first]))
            for each in found
        ]

    @property
    def _usual_depth(self) -> int:
        return max(self._settings.search.depth, FIELD_DEPTH)

    def _list_kinds(self) -> Sequence[Filter]:
        return KINDS if self._has_messages() else (EVERYTHING,)

    def weigh(self, query: Query, gathered: Gathered, depth: int) -> Found:
        """Compute the evidence and relevance of candidates, and cut each ranking at a depth."""
        found, best = gathered.candidates, list_places(gathered.field, FIELD_DEPTH)
        evidence = self._read_evidence(query, found)
        trust, weight = self._trust_words(query, found, evidence.words[best]), self._weigh_meaning(query, found)
        intent, field = estimate_intent(query.text), evidence.measure_field(best)
        own = estimate_relevance(evidence, field, intent=intent, semantic_weight=weight, words_trust=trust)
        answers = math.sqrt(intent) * estimate_answers(evidence, semantic_weight=weight, words_trust=trust)
        threads, relevance = dict[int, ThreadPlace](), own
        places = np.flatnonzero(found.is_message)
        if len(places):
            threads = dict(zip(places.tolist(), found.read_threads(places.tolist()), strict=True))
            repeats = np.zeros(len(own), bool)
            repeats[places] = self._mark_questions(query, evidence.share[places], list(threads.values()))
            around = [place for place in list_places(gathered.field, self._usual_depth) if found.is_message[place]]
            relevance = own.copy()
            relevance[places] = add_neighbours(
                own[places],
                list(threads.values()),
                self._settings.flow.reach,
                own[around],
                [threads[place] for place in around],
                repeats[around],
            )
            answers = np.maximum(answers, relevance)  # a reply answers by what it replies to …
            relevance[repeats] *= QUESTION_SHARE
            answers[repeats] = relevance[repeats]  # … and a question does not answer
        near, matching = ([places[:depth] for places in each] for each in (gathered.near, gathered.matching))
        return Found(found, near, matching, evidence, own, answers, relevance, threads)

    def _mark_questions(self, query: Query, shares: Signal, places: Sequence[ThreadPlace]) -> NDArray[np.bool_]:
        """Mark messages that only repeat the question; they pass their gain on to their replies."""
        terms = self.extract_terms(query)
        if len(terms) < 2 or not is_question(query.text):
            return np.zeros(len(places), bool)
        least = MIN_REPEATED * _trust_terms(terms)
        marked = np.zeros(len(places), bool)
        for at in np.flatnonzero(shares >= least).tolist():
            marked[at] = self._repeats(query, terms, places[at].text)
        return marked

    def _repeats(self, query: Query, terms: Terms, text: str) -> bool:
        """Return whether a text, up to its last question mark, only repeats the query, and says nothing after it."""
        end = max(map(text.rfind, QUESTION_MARKS)) + 1
        if not end and not is_question(text):
            return False
        asked = self.analyser.extract_terms_to_compare(text[:end] or text, query.text)
        has_terms = sum(term in asked for term in terms) >= MIN_REPEATED * len(terms)
        return has_terms and len(asked) <= 2 * len(terms) + MAX_MORE and not (end and has_content(text[end:]))

    def _weigh_meaning(self, query: Query, found: Candidates) -> Signal:
        """Return the weight of meaning for each candidate: less if the embedder does not know the query's language."""
        flow, search = self._settings.flow, self._settings.search
        weights = np.where(found.is_message, flow.semantic_weight, search.semantic_weight)
        known, language = find_known_languages(self.embedder), self.analyser.find_language(query.text)
        if not known or not language or language in known:
            return weights
        is_alike = any(list_scripts(language) & list_scripts(code) for code in known)
        return (UNKNOWN_LANGUAGE if is_alike else UNKNOWN_SCRIPT) * weights

    def _read_evidence(self, query: Query, found: Candidates) -> Evidence:
        background = self._calibration.background(embed_query(query, self.embedder))
        meaning = self._calibration.scale(found.cosines, background)
        certainty = _trust_terms(self.extract_terms(query))
        share = certainty * found.shares
        words = (share + certainty * found.strengths) / 2
        evidence = Evidence(expect_meaning(meaning, share), words, share)
        others = self._list_other_languages(query)
        if not others:
            return evidence
        return evidence.expect_words(self._mark_languages(found, others))

    def _mark_languages(self, found: Candidates, codes: Iterable[str]) -> NDArray[np.bool_]:
        """Mark the candidates that are in one of the languages."""
        matches = self._seen.match_terms({make_language_term(code): 1 for code in codes}, found.ids)
        return np.array([each in matches and matches[each].share > 0 for each in found.ids], bool)

    def estimate_summaries(
        self, query: Query, summaries: Sequence[str], cosines: Mapping[str, float]
    ) -> dict[str, float]:
        """Estimate the relevance of summaries as if they were chunks; `cosines` are by document, in the same order.

        Terms of summaries are not indexed, so every term of the query counts the same.
        """
        asked = self.extract_terms(query)
        found = [self.analyser.extract_terms_to_compare(each, query.text) for each in summaries]
        shares = np.array([sum(term in terms for term in asked) / max(len(asked), 1) for terms in found])
        background = self._calibration.background(embed_query(query, self.embedder))
        meaning, share = (
            self._calibration.scale(np.array(list(cosines.values())), background),
            _trust_terms(asked) * shares,
        )
        evidence = Evidence(meaning, share, share)
        if others := self._list_other_languages(query):
            evidence = evidence.expect_words(np.array([detect_language(each) in others for each in summaries], bool))
        relevances = estimate_relevance(evidence, evidence.measure_field(), intent=estimate_intent(query.text))
        return dict(zip(cosines, relevances.tolist(), strict=True))

    def is_new_topic(self, query: Query, expanded: Query) -> bool:
        """Return whether a short question leaves the topic of the conversation whose keywords expanded it.

        On a new topic, the question's words find texts by themselves, and no text has them together with the
        conversation's words. A follow-up finds little by itself, or texts on the conversation's topic. The limits were
        chosen on half of the questions of `python -m studies.follow_ups`.
        """
        found = self.judge(query)
        if max(found.own[found.list_places()].tolist(), default=0.0) < MIN_NEW_RELEVANCE:
            return False
        own, both = self.extract_terms(query), self.extract_terms(expanded)
        added = {term: count for term, count in both.items() if term not in own}
        where = self._shown & query.where
        hits = [hit for terms in (own, both) for hit in self._seen.search_terms(terms, TOGETHER, where)]
        matches = self._seen.match_terms(own, list({hit.chunk.id: None for hit in hits}))
        most = max((match.share for match in matches.values()), default=0.0)
        first = [id_ for id_, match in matches.items() if math.isclose(match.share, most)]
        together = max((match.share for match in self._seen.match_terms(added, first).values()), default=0.0)
        return together < MAX_TOGETHER

    def _trust_words(self, query: Query, found: Candidates, words: Signal) -> float | Signal:
        """Estimate how far to trust the words of a query, given the words of the field: less across languages.

        If the embedder can match texts in other languages, words count only as far as the field's best matches by words
        come near the number expected of the best meaning.
        """
        if foreign := self.analyser.find_foreign_language(query.text):
            return np.where(self._mark_languages(found, [foreign]), 1.0, FOREIGN_TRUST)
        known = find_known_languages(self.embedder)
        if len(words) and self.analyser.can_do_without_words(query.text, known):
            return min(float(words.max()) / EXPECTED_WORDS, 1.0)
        return 1.0

    def _list_other_languages(self, query: Query) -> list[str]:
        return self.analyser.list_other_languages(query.text, find_known_languages(self.embedder))

    def extract_terms(self, query: Query) -> Terms:
        """Extract the terms of a query."""
        return self.analyser.extract_terms(query.text)


def assess(source: EvidenceSource, *, again: bool = False) -> Step:
    """Make a step that computes similarity and relevance if any hit lacks relevance, or always with `again`."""

    def relevance(query: Query, hits: list[Hit]) -> list[Hit]:
        if not hits or not (again or any(math.isnan(hit.relevance) for hit in hits)):
            return hits
        found = source.judge(replace(query, where=EVERYTHING), [hit.chunk.id for hit in hits])
        places = {id_: place for place, id_ in enumerate(found.candidates.ids)}
        assessed = []
        for hit in hits:
            place = places.get(hit.chunk.id)
            if place is None:  # not in the store
                assessed.append(replace(hit, relevance=0.0))
                continue
            numbers = float(found.candidates.cosines[place]), float(found.relevance[place])
            scores = {**hit.scores, **found.name_scores(place)}
            assessed.append(Hit(hit.chunk, hit.document, hit.score, scores, *numbers))
        return assessed

    return relevance


def order_by_relevance(_: Query, hits: list[Hit]) -> list[Hit]:
    """Order hits by relevance, which becomes their score."""
    return sort_by_relevance([replace(hit, score=hit.relevance) for hit in hits])


def embed_query(query: Query, embedder: Embedder) -> Vector:
    """Embed the query, or return the vector that it carries."""
    if query.vector is not None:
        return query.vector
    with step("embed"):
        vector: Vector = embedder.embed([query.text], role="query")[0]
        return vector


def list_places(rankings: Iterable[Sequence[int]], depth: int | None = None) -> list[int]:
    """List the first `depth` places of each ranking, each place once."""
    return list(dict.fromkeys(chain.from_iterable(ranking[:depth] for ranking in rankings)))


def _trust_terms(terms: Terms) -> float:
    """Estimate how much shared terms say: one shared word says less than all of five."""
    return len(terms) / (len(terms) + 1)
