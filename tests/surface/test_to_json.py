"""Golden test of the JSON schema: every key that a surface prints, in order, for one value of each type."""

from datetime import UTC, datetime
from pathlib import Path

from clew.core.answer import Answer, AnswerPart, RemovedSentence
from clew.core.attribution import PassageMessage
from clew.core.calibration import Calibration
from clew.core.cite import Citation, CitationCheck, Context, DroppedPassage, MergedChunk
from clew.core.doctor import Defect, DoctorReport
from clew.core.explanation import Explanation, Fix, WhyNot
from clew.core.report import PassedOver, Plan, Receipt, Report, SourceFailure
from clew.core.settings import DEFAULTS
from clew.core.stored import BundlePart, Manifest
from clew.core.trace import Trace
from clew.core.types import Chunk, Document, DocumentRecord, Hit, Message, Query, Section, StoreStats
from clew.core.usage import Usage
from clew.core.window import ContextMessage, ContextWindow, DroppedMessage, Links, StyleProfile, WindowThread
from clew.surface import to_json as convert
from clew.surface.settings.load import Invocation

GOLDEN = Path(__file__).with_name("to_json.golden.json")
AT = datetime(2025, 3, 1, 9, 30, tzinfo=UTC)

TRACE = Trace("search", 1.5, 2, {"strategy": "hybrid"}, [Trace("lexical", 0.5, 1)])
RECORD = DocumentRecord("d1", "Vault", "pages/vault.md", "page", "hash", "stamp", 120, 2, "On keys.", {"owner": "ines"})
CHUNK = Chunk("c1", "d1", 0, 2, "Keys rotate.", 10, 22, ("Keys",), "ctx", AT, {"tags": ("a", "b")})
HIT = Hit(CHUNK, RECORD, 0.75, {"semantic": 0.5, "hybrid": 0.75}, similarity=0.5, relevance=0.9)
SAID = PassageMessage("m1", "Keys rotate.", "dan", AT, "ops", "m0", guessed=True)
PASSAGE = MergedChunk("Keys rotate.", "d1", ("Keys",), "Keys", (HIT,), 0.5, 12, ((10, 22),), messages=(SAID,))
CITATION = Citation(
    "d1", "v1", 10, 22, "h", "Keys rotate.", "Vault", "pages/vault.md", 3, "m1", "dan", AT, ("Keys",), line=7
)
CONTEXT = Context(
    query=Query("who rotates?"),
    passages=(PASSAGE,),
    text="[1] Keys rotate.",
    tokens=5,
    documents=(RECORD,),
    dropped=(DroppedPassage(PASSAGE, "budget", 9),),
    reason="",
    citations=(CITATION,),
    numbers={"d1": 1},
)
ANSWER = Answer(
    question="who rotates?",
    text="Dan. [2]",
    citations=(CITATION,),
    context=CONTEXT,
    confidence=0.9,
    removed=(RemovedSentence("The moon.", "not supported", kept=True),),
    usage=Usage(1, 20, 5, 0),
    numbers={"d1": 2},
    fault="broke off",
    parts=(AnswerPart("Keys rotate. Dan does it.", (13, 25), CITATION),),
)
MESSAGE = ContextMessage(
    Message("Who rotates?", author="ada", at=AT, id="m2", channel="ops"),
    "t1",
    score=0.5,
    original_score=0.6,
    similarity=0.7,
    parent=Message("Keys", id="m1", channel="ops"),
)
WINDOW = ContextWindow(
    messages=(MESSAGE,),
    total_tokens=7,
    channels=frozenset({"ops", "dev"}),
    text="Who rotates?",
    threads=(WindowThread("t1", "Keys", "ops", 0.5, (MESSAGE,), whole=True),),
    dropped=(DroppedMessage(MESSAGE, "budget", 7),),
    reason="",
)
STARTED = Invocation("postgresql://ada:secret@host/db", "default", DEFAULTS, {}, None)


PROFILE = StyleProfile(
    "ada", "casual", "simple", "short", ("no worries",), 6, 0.3, (":)",), {"questions": 0.5}, "measured"
)
MANIFEST = Manifest("hashed", 256, "en", 2, 5, (BundlePart("documents-00001.parquet", 2, "0" * 64),), 1)
NO_RECORD = DocumentRecord("d1", kind="")


def make_outputs() -> dict[str, object]:
    """What each command prints as JSON for the values above."""
    return {
        "report": Report(
            *(("a.md",), ("b.md",), 1, (SourceFailure("c.md", "empty"),), 4, 3, 1, 0.5),
            *((SourceFailure("a.md", "x"),), 1, 0.1),
            passed_over=(PassedOver("docs/.git/", "version control", 7),),
            held_back=("z.md",),
        ),
        "plan": Plan(("a.md",), ("b.md",), 1, (SourceFailure("c", "e"),), ("d",), 4, 1, 3, 99, 2, 50, 20, 0.2),
        "erase": Receipt(
            *("author dan", AT, ("d1",), ("m1",), 2, 3, 40, 1, 5, 6, 1, 1, ("clew.db",)),
            *(("m2",), ("d2",), ("a.md",), ("the log",), ("backups",)),
        ),
        "doctor": DoctorReport(
            (Defect("counts", "the collection says 2 chunks where there are 3", "", "rebuild", True),),
            {"documents": 1, "chunks": 3},
            0.5,
        ),
        "record": RECORD,
        "document": Document(
            "d1",
            "Keys rotate.",
            (Section(0, 12, "Keys", None, "s1", "dan", AT, 3),),
            title="Vault",
            uri="pages/vault.md",
            summary="On keys.",
            meta={"owner": "ines"},
        ),
        "search": convert.search_to_json([HIT, Hit(CHUNK, RECORD, 0.1)], reason="", trace=TRACE),
        "search without a record": convert.search_to_json(
            [Hit(CHUNK, NO_RECORD, HIT.score, HIT.scores)], reason="none", trace=TRACE
        ),
        "explain": Explanation(Query("who?"), "hybrid", (HIT,), (RECORD,), TRACE),
        "context": convert.context_to_json(CONTEXT, trace=TRACE),
        "ask": convert.answer_to_json(ANSWER, trace=TRACE),
        "citations check": convert.citation_checks_to_json(
            [("who?", [CitationCheck(CITATION, "moved", 40)]), ("what?", [CitationCheck(CITATION, "stands", 10)])]
        ),
        "why_not": WhyNot("who?", "a.md", "depth", "too deep", Fix("search.k", 9, 5)),
        "why_not without a fix": WhyNot("who?", "a.md", "found", "it is hit 1 of 1"),
        "status": convert.status_to_json(StoreStats(2, 5, "hashed", 256, 7, "exact", 1024), invocation=STARTED),
        "calibrate": Calibration("hashed", 0.4, 0.1, chunks=128),
        "window": WINDOW,
        "profile": PROFILE,
        "links": Links(cites=(RECORD,)),
        "export": convert.manifest_to_json(MANIFEST, file=Path("all.zip"), size=99),
    }


def test_the_json_of_every_type_is_the_golden_one() -> None:
    assert convert.dump_json(make_outputs(), indent=1) + "\n" == GOLDEN.read_text(encoding="utf-8")
