"""The verb that answers: checked prose with a model, the best sentences word for word without one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from clew import drivers
from clew.core.answer import Answer
from clew.core.cite import Citation
from clew.core.errors import SettingsError
from clew.core.protocols import Reranker
from clew.core.settings import RerankerConfig, Settings
from clew.core.tally import UsageMeter
from clew.core.text import terms
from clew.core.types import EVERYTHING, Context, Filter, Hit, Message, Query
from clew.engine.conversing import Conversing
from clew.query.answer import LOOKED_AT, NOT_HERE, Look, extracted, shown_in, written
from clew.query.answer.write import SYSTEM, prompt


class Answering(Conversing):
    """Asking."""

    def ask(
        self,
        question: str,
        *,
        tokens: int | None = None,
        k: int | None = None,
        strategy: str | None = None,
        where: Filter = EVERYTHING,
        history: Sequence[Message] = (),
        session: str | None = None,
        person: str | None = None,
        hear: Callable[[str], None] | None = None,
        settings: Settings | None = None,
    ) -> Answer:
        """What the collection answers, every sentence with a citation that was checked against the stored text.

        With a language model it is prose, in the manner of a `person` if one is named, and `hear` gets each sentence
        when it is checked; without one it is the best sentences as they stand. Where nothing supports an answer, it
        says so and `found` is False.
        """
        settings = settings or self._settings
        shape = replace(settings, context=replace(settings.context, render="numbered", wrap="xml", order="score"))
        context = self.context(
            question,
            tokens=tokens,
            k=k,
            strategy=strategy,
            where=where,
            history=history,
            session=session,
            settings=shape,
        )
        hits = sorted((hit for each in context.passages for hit in each.chunks), key=lambda hit: -hit.score)
        numbers = context.numbers if session else {}
        if self._llm is None and person:
            raise SettingsError(f"to answer as {person!r} takes a language model; name one (llm.name, --llm)")
        if self._llm is None or not hits:
            return self._extracted(question, hits, context, settings, numbers=numbers, hear=hear)
        with UsageMeter().counting() as tally:
            manner = self.reply_prompt(person, question, settings=settings) if person else ""
            said = prompt(question, context.text, history=_told(history), manner=manner)
            pieces = self._llm.stream(said, system=SYSTEM, max_tokens=settings.answer.max_tokens)
            shown = shown_in(context, self._store.document)
            made = written(pieces, shown, question=question, hear=hear, numbers=numbers)
        return Answer(
            question=question,
            text=made.shown,
            citations=made.citations,
            context=context,
            found=bool(made.citations),
            confidence=1.0 if made.citations else 0.0,
            removed=made.removed,
            usage=tally.usage,
            reason=made.wanting,
            numbers=_of(made.citations, numbers),
            fault=made.fault,
        )

    def _extracted(
        self,
        question: str,
        hits: Sequence[Hit],
        context: Context,
        settings: Settings,
        *,
        numbers: Mapping[str, int],
        hear: Callable[[str], None] | None,
    ) -> Answer:
        found = extracted(
            question,
            hits,
            {record.id: record for record in context.documents},
            self._judge(settings),
            look=self._look(replace(context.query, text=question), settings) if hits else None,
            most=settings.answer.sentences,
            least=settings.answer.min_confidence,
        )
        lines = [
            f"{' '.join(each.quote.split())} [{numbers.get(each.document, place)}]"
            for place, each in enumerate(found.citations, 1)
        ]
        for place, line in enumerate(lines):
            if hear is not None:
                hear(f"\n{line}" if place else line)
        least = settings.answer.min_confidence
        nothing = (
            f"what was found answers it with a chance of {found.confidence:.2f}, and at least "
            f"{least:.2f} is asked for (answer.min_confidence)"
            if found.confidence < least
            else "what was found has no sentence of its own to cite"
        )
        return Answer(
            question=question,
            text="\n".join(lines) or NOT_HERE,
            citations=found.citations,
            context=context,
            found=bool(found.citations),
            confidence=found.confidence,
            reason="" if lines else nothing if hits else context.reason,
            numbers=_of(found.citations, numbers),
        )

    def _look(self, query: Query, settings: Settings, *, k: int = LOOKED_AT) -> Look:
        """What the collection shows of a question by meaning and words, whatever strategy it is asked with."""
        hits = self._finder.find(replace(query, k=k, depth=max(query.depth, k)), "hybrid", settings)
        language = settings.ingestion.language
        return Look(hits, terms(query.text, language=language).keys(), self._embedder.min_similarity, language)

    def _judge(self, settings: Settings) -> Reranker:
        """The reranker of the settings, or the one that needs no model."""
        found = self._finder.reranker(settings.reranker) or drivers.reranker(RerankerConfig(name="overlap"))
        assert found is not None
        return found


def _of(citations: Sequence[Citation], numbers: Mapping[str, int]) -> dict[str, int]:
    return {each.document: numbers[each.document] for each in citations if each.document in numbers}


def _told(history: Sequence[Message]) -> str:
    return "\n".join(f"{message.author or message.role}: {message.text}" for message in history)
