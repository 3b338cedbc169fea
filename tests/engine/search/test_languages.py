"""Languages: each text is analysed in its own, and a query in those of the collection; the collection counts them."""

from dataclasses import replace
from pathlib import Path

import pytest

from clew import Document, Engine, Filter, Message, Settings
from clew.core.analyse import analyse_text
from clew.core.errors import SettingsError
from clew.core.languages import detect_language
from clew.core.settings import IngestionConfig, StoreConfig
from clew.core.text import extract_terms
from tests.engine.chosen import ChosenEmbedder, OpenEngine

# A page in each language, and a question in which its words are inflected, or typed, differently.
PAGES = {
    "en": "The operations team rotates the keys of all servers every ninety days and writes it down in the log.",
    "de": "Die Abteilung wechselt die Schlüssel aller Rechner nach neunzig Tagen und schreibt es ins Protokoll.",
    "tr": "İstanbul'daki ekip sunucuların anahtarlarını doksan günde bir değiştirir ve bunu deftere yazar.",
    "ro": "Echipa din București schimbă cheile tuturor serverelor la nouăzeci de zile și notează asta în registru.",
    "vi": "Nhóm vận hành thay chìa khóa của tất cả máy chủ chín mươi ngày một lần và ghi lại vào sổ nhật ký.",
    "th": "ทีมปฏิบัติการเปลี่ยนกุญแจของเซิร์ฟเวอร์ทุกเก้าสิบวันและบันทึกไว้ในสมุด แมวนอนอยู่บนหลังคา",
    "ja": "運用チームは九十日ごとにすべてのサーバーの鍵を交換し、記録簿に書き込みます。",
    "zh": "运维团队每九十天更换一次所有服务器的钥匙，并把它写在日志里。屋顶上有一只猫。",
    "ar": "يغير فريق التشغيل مفاتيح جميع الخوادم كل تسعين يوما ويكتب ذلك في السجل.",
    "ru": "Команда эксплуатации меняет ключи всех серверов каждые девяносто дней и записывает это в журнал.",
    "el": "Η ομάδα λειτουργίας αλλάζει τα κλειδιά όλων των διακομιστών κάθε ενενήντα ημέρες και το σημειώνει.",
    "hi": "संचालन दल हर नब्बे दिन में सभी सर्वरों की चाबियाँ बदलता है और इसे रजिस्टर में लिखता है।",
}
QUESTIONS = {
    "en": ("who is rotating a key?", "rotation server"),
    "de": ("Wer schreibt das in die Protokolle?", "Protokolle"),
    "tr": ("Anahtarlar ne zaman değiştirilir?", "İSTANBUL ANAHTARI"),
    "ro": ("Cine notează în registrul echipei?", "registrele echipelor"),
    "vi": ("Ai thay chìa khóa máy chủ?", "chia khoa may chu"),
    "th": ("ใครเปลี่ยนกุญแจ", "แมว"),
    "ja": ("鍵は誰が交換しますか", "鍵"),
    "zh": ("谁更换服务器的钥匙？", "猫"),
    "ar": ("من يغير المفتاح والمفاتيح؟", "مفاتيح الخادم"),
    "ru": ("Кто меняет ключ сервера?", "ключами"),
    "el": ("Ποιος αλλάζει το κλειδί;", "κλειδιών"),
    "hi": ("चाबियों को कौन बदलते हैं?", "चाबी"),
}


@pytest.fixture
def engine(open_engine: OpenEngine) -> Engine:
    engine = open_engine(embedder="hashed:32")
    engine.add_documents([Document(code, text) for code, text in PAGES.items()])
    return engine


def test_every_language_is_detected_and_counted(engine: Engine) -> None:
    assert {code: detect_language(text) for code, text in PAGES.items()} == {code: code for code in PAGES}
    assert engine.status().languages == dict.fromkeys(sorted(PAGES), 1)
    engine.drop("de", "th")
    assert engine.status().languages == dict.fromkeys(sorted(PAGES.keys() - {"de", "th"}), 1)


def test_the_language_of_a_document_is_told(engine: Engine) -> None:
    assert {record.id: record.language for record in engine.list()} == {code: code for code in PAGES}
    assert {code: engine.read(code).language for code in PAGES} == {code: code for code in PAGES}
    engine.add_documents([Document("odd", "4417 0x3f 88:12")])
    assert engine.read("odd").language == "und"
    assert [record.language for record in engine.list(Filter(documents={"odd", "zh"}))] == ["und", "zh"]


def test_most_of_the_chunks_say_the_language_of_a_document(open_engine: OpenEngine) -> None:
    settings = Settings(ingestion=IngestionConfig(chunk_size=40, chunk_overlap=0))
    engine = open_engine(embedder="hashed:32", settings=settings)
    mixed = "\n\n".join(f"# {each}\n\n{PAGES[each]}" for each in ("de", "en", "de"))
    engine.add_documents([Document("mixed", mixed), Document("en", PAGES["en"])])
    tied = "\n\n".join(f"# {each}\n\n{PAGES[each]}" for each in ("en", "tr", "de"))
    late = "\n\n".join([f"# en\n\n{PAGES['en']}", *(f"# {at}\n\n{PAGES['ro']} {at}" for at in range(40))])
    engine.add_documents([Document("tied", tied), Document("late", late)])
    expected = {"mixed": "de", "en": "en", "tied": "de", "late": "ro"}
    assert {record.id: record.language for record in engine.list()} == expected
    assert {each: engine.read(each).language for each in expected} == expected


def test_a_read_tells_the_language_without_the_index(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("search_terms", "count_terms", "language_counts"):
        monkeypatch.setattr(type(engine.opened.store), name, None)
    assert {code: engine.read(code).language for code in PAGES} == {code: code for code in PAGES}


def test_a_status_beside_another_process_counts_languages_without_an_index_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(store=StoreConfig(exact_below=0))
    documents = [Document(code, text) for code, text in PAGES.items()]
    with (
        Engine.open(tmp_path, embedder="hashed:8", settings=settings) as first,
        Engine.open(tmp_path, embedder="hashed:8", settings=settings) as second,
    ):
        first.add_documents([*documents, Document("en2", "The keys are in the safe below the stairs.")])
        first.search("keys")  # it holds the index
        first.drop("de")
        monkeypatch.setattr("clew.drivers.store.sqlite.exact.ExactIndex.catch_up", pytest.fail)
        expected = {code: 1 for code in PAGES if code != "de"} | {"en": 2}
        assert second.status().languages == first.status().languages == expected


def test_a_status_leaves_the_index_to_those_who_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clew.drivers.store.sqlite.index.EXACT_LIMIT", 1)
    settings = Settings(store=StoreConfig(exact_below=0))
    documents = [Document(code, text) for code, text in PAGES.items()]
    with Engine.open(tmp_path, embedder="hashed:8", settings=settings) as first:
        first.add_documents(documents)
    for _ in range(2):
        with (
            Engine.open(tmp_path, embedder="hashed:8", settings=settings) as asking,
            Engine.open(tmp_path, embedder="hashed:8", settings=settings) as searching,
        ):
            status = asking.status()
            assert (status.index, status.languages) == ("qdrant-edge shard", dict.fromkeys(PAGES, 1))
            assert searching.search(PAGES["en"], k=1)[0].chunk.doc_id == "en"
            searching.add_documents([Document("en", PAGES["en"] + " The log is kept.")])
            assert asking.status().languages == dict.fromkeys(PAGES, 1)


def test_one_page_in_another_language_changes_no_question(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed")
    things = ["list", "deque", "heap", "tree", "queue", "stack", "table", "matrix", "graph", "buffer", "socket", "lock"]
    engine.add_documents(
        [Document(thing, f"To sort a {thing} in place, call its method; it gives nothing back.") for thing in things]
        + [Document(f"{thing} size", f"The size of a {thing} is told by its length.") for thing in things]
    )
    question = "how do I sort a list in place"
    (before,) = engine.search(question, k=1)
    engine.add_documents([Document("de", PAGES["de"])])
    (after,) = engine.search(question, k=1)
    assert (before.chunk.doc_id, after.chunk.doc_id) == ("list", "list")
    assert after.relevance == pytest.approx(before.relevance, abs=0.02)
    assert engine.search("Wer schreibt das in die Protokolle?", k=1)[0].chunk.doc_id == "de"


def test_a_language_that_is_set_is_that_of_every_document(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed:32", settings=Settings(ingestion=IngestionConfig(language="tr")))
    engine.add_documents([Document("de", PAGES["de"])])
    assert [record.language for record in engine.list()] == [engine.read("de").language] == ["tr"]


def test_a_message_that_is_hidden_does_not_say_the_language(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed:32")
    engine.add_messages(
        [
            Message(PAGES["de"], "ada", channel="ops", id="one"),
            *(Message(PAGES["tr"], "bob", channel="ops", id=f"tr{at}", reply_to="one") for at in range(2)),
        ]
    )
    assert [record.language for record in engine.list()] == ["tr"]
    assert [record.language for record in engine.list(Filter(authors={"ada"}))] == ["de"]
    (record,) = engine.list()
    assert engine.read(record.id).language == "tr"
    assert engine.read(record.id, where=Filter(authors={"ada"})).language == "de"


def test_a_trace_names_the_language_that_a_question_was_taken_for(engine: Engine) -> None:
    explained = engine.explain(QUESTIONS["de"][0], strategy="lexical")
    assert explained.trace.find_note("language") == "de"
    assert str(explained.trace.find_note("languages")).startswith("de")
    assert engine.explain("4417", strategy="semantic").trace.find_note("language") == "und"
    settings = Settings(ingestion=IngestionConfig(language="tr"))
    assert engine.explain("4417", settings=settings).trace.find_note("language") == "tr"


def test_a_question_finds_its_page_in_a_collection_of_many_languages(engine: Engine) -> None:
    for code, questions in QUESTIONS.items():
        for question in questions:
            found = [hit.document.id for hit in engine.search(question, strategy="lexical")]
            assert found[:1] == [code], (code, question, found)


@pytest.mark.parametrize("code", PAGES)
def test_a_question_finds_its_page_in_a_collection_of_its_language(open_engine: OpenEngine, code: str) -> None:
    engine = open_engine(embedder="hashed:32")
    engine.add_documents([Document(code, PAGES[code])])
    assert [[hit.document.id for hit in engine.search(each, strategy="lexical")] for each in QUESTIONS[code]] == [
        [code],
        [code],
    ]
    assert all(defect.area != "postings" for defect in engine.doctor().defects)


def test_a_text_that_quotes_english_is_in_its_own_language() -> None:
    texts = {
        "zh": "屏幕上显示“There was an error while using your card”。请检查存储卡并重新启动程序。",
        "de": "Mit INSERT INTO und BETWEEN sowie CASE WHEN werden die Umsätze der Kunden in die Tabelle geschrieben.",
    }
    assert {code: detect_language(text) for code, text in texts.items()} == {code: code for code in texts}


def test_an_english_title_does_not_make_a_text_in_another_script_english() -> None:
    texts = {
        "th": "The Wealth of Nations and the State: หนังสือเล่มนี้เป็นหนังสือที่นักเศรษฐศาสตร์ทุกคนควรอ่านให้จบสักครั้งในชีวิต",
        "ka": "The Wealth of Nations and the State: ეს წიგნი ყველა ეკონომისტმა ბოლომდე უნდა წაიკითხოს ერთხელ მაინც",
    }
    assert "en" not in {detect_language(text) for text in texts.values()}


def test_words_that_look_like_another_language_are_searched_in_those_of_the_collection(
    open_engine: OpenEngine,
) -> None:
    engine = open_engine(embedder="hashed:32")
    engine.add_documents(
        [Document("film", "They watched the film that everybody talked about, Die Hardest of them all.")]
    )
    assert detect_language("Die hardest film der hardest of film") != "en"
    assert [hit.document.id for hit in engine.search("die hardest films", strategy="lexical")] == ["film"]


def test_marks_of_vietnamese_tell_words_apart_unless_the_query_has_none(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed:32")
    engine.add_documents(
        [
            Document("ghost", "Trong ngôi nhà cũ này có một con ma rất đáng sợ và không ai dám bước vào."),
            Document("rice", "Người nông dân gieo mạ trên những cánh đồng rộng lớn bên cạnh dòng sông."),
        ]
    )
    assert [hit.document.id for hit in engine.search("gieo mạ", strategy="lexical")] == ["rice"]
    assert {hit.document.id for hit in engine.search("ma", strategy="lexical")} == {"ghost", "rice"}


def test_a_page_lends_its_language_to_a_part_that_does_not_tell_its_own(open_engine: OpenEngine) -> None:
    settings = Settings(ingestion=IngestionConfig(chunk_size=40, chunk_overlap=0))
    engine = open_engine(embedder="hashed:32", settings=settings)
    text = f"{PAGES['de']} {PAGES['de']}\n\n| Schlüsseln | 4417 |\n|---|---|\n| Rechnern | 4418 |\n| Tagen | 4419 |"
    engine.add_documents([Document("page", text)])
    assert set(engine.status().languages) == {"de"}


def test_messages_are_counted_in_their_own_languages(open_engine: OpenEngine) -> None:
    engine = open_engine(embedder="hashed:32")
    engine.add_messages([Message(PAGES[code], "ada", channel="ops", id=code) for code in ("en", "de", "tr")])
    engine.add_messages([Message("ok", "bob", channel="ops", id="ok")])
    assert set(engine.status().languages) >= {"en", "de", "tr"}
    assert engine.search("Anahtarlar", strategy="lexical")[0].chunk.meta["message"] == "tr"


def test_the_language_of_the_settings_decides(open_engine: OpenEngine) -> None:
    settings = Settings(ingestion=replace(Settings().ingestion, language="tr"))
    engine = open_engine(embedder="hashed:32", settings=settings)
    engine.add_documents([Document("d", "anahtarlar")])
    assert engine.status().languages == {"tr": 1}
    assert [hit.document.id for hit in engine.search("anahtar", strategy="lexical")] == ["d"]


def test_a_collection_indexed_before_languages_were_kept_is_searched_and_told(
    open_engine: OpenEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine = open_engine(embedder="hashed:32")
    with monkeypatch.context() as patch:
        patch.setattr("clew.index.chunk.build.analyse_text", lambda text, _: extract_terms(text))
        patch.setattr("clew.index.chunk.build.make_language_term", lambda _: "keys")
        engine.add_documents([Document(code, PAGES[code]) for code in ("en", "de", "zh")])
    assert engine.status().languages == {}
    assert engine.search("Protokolle", strategy="lexical")[0].document.id == "de"
    assert engine.search("服务器的钥匙", strategy="lexical")[0].document.id == "zh"
    (told,) = [defect for defect in engine.doctor().defects if defect.area == "postings"]
    assert "add the sources again" in told.next_step


def test_odd_texts_have_no_language() -> None:
    odd = ("", " \n", "half a pair \ud800 " * 3, "\0\0\0", "4417 0x3f " * 40, "👩‍👩‍👧‍👦" * 30)
    assert {detect_language(text) for text in odd} <= {"", "en"}


def test_terms_keep_what_a_query_may_hold() -> None:
    assert analyse_text("who", "en") == {"who": 1}
    assert analyse_text("!", "en") == {}


def test_a_language_that_is_not_known_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"ingestion\.language"):
        IngestionConfig(language="tlh")


def test_a_question_in_another_language_than_the_texts_is_answered_by_meaning(open_engine: OpenEngine) -> None:
    question = "Wo ist der Hafen, und was ist er?"
    meant, shared = (
        "The ships are moored there and that is the end.",
        "They said that the tavern of Hafen is closed for the winter.",
    )
    embedder = ChosenEmbedder({question: {"q": 1.0}, meant: {"q": 0.6}, shared: {"q": 0.2}})
    engine = open_engine(embedder=embedder)
    engine.add_documents([Document("meant", meant), Document("shared", shared)])
    assert engine.status().languages == {"en": 2}
    assert [hit.document.id for hit in engine.search(question, strategy="lexical")] == ["shared"]
    assert [hit.document.id for hit in engine.search(question, strategy="hybrid")] == ["meant", "shared"]
    engine.add_documents([Document("german", "Das Schiff und der Kai sind dort, und das ist auch gut so.")])
    assert engine.search(question, strategy="hybrid")[0].document.id == "meant"  # as it was: words cannot match there


def test_words_count_in_the_one_page_of_the_language_of_a_question(open_engine: OpenEngine) -> None:
    """Elsewhere a word that both languages have may be a name."""
    engine = open_engine(embedder="hashed:32")
    engine.add_documents(Document(f"en{n}", f"{PAGES['en']} This is the log of server {n}.") for n in range(30))
    asked = "Wer putzt die Treppe und schreibt es danach ins Protokoll?"
    before = {hit.document.id: hit.relevance for hit in engine.search(asked, k=30)}
    engine.add_documents([Document("de", PAGES["de"])])
    first, *others = engine.search(asked, k=31)
    assert first.document.id == "de"
    assert first.relevance > 0.65
    assert all(hit.relevance <= before.get(hit.document.id, 0.0) + 0.1 for hit in others)
