"""Searches in a conversation: follow-ups are expanded, in any language, and keywords for something new are not."""

from collections.abc import Iterator

import pytest

from clew import Document, DriverFailed, Engine, Filter, Hit, Message, ScriptedLLM, record

# A question, the page that it is about, another page with the same word, and follow-ups to the question.
CONVERSATIONS = {
    "en": (
        "who carries the pager?",
        "The pager is carried by the platform team; two people carry it on weekends.",
        "The canteen is closed on weekends.",
        ("and on weekends?", "what about weekends?", "weekends"),
    ),
    "de": (
        "Wer trägt den Pager?",
        "Den Pager trägt das Plattformteam; am Wochenende tragen ihn zwei Leute.",
        "Die Kantine ist am Wochenende geschlossen.",
        ("und am Wochenende?", "wie sieht es am Wochenende aus?", "gilt das auch am Wochenende?"),
    ),
    "fr": (
        "Qui porte le bipeur ?",
        "Le bipeur est porté par l'équipe plateforme ; le week-end, deux personnes portent le bipeur.",
        "La cantine est fermée le week-end.",
        ("et le week-end ?", "qu'en est-il du week-end ?"),
    ),
    "es": (
        "¿Quién lleva el buscapersonas?",
        "El buscapersonas lo lleva el equipo de plataforma; los fines de semana lo llevan dos personas.",
        "El comedor cierra los fines de semana.",
        ("¿y los fines de semana?",),
    ),
    "it": (
        "Chi porta il cercapersone?",
        "Il cercapersone è del gruppo piattaforma; nel fine settimana lo portano due persone.",
        "La mensa è chiusa nel fine settimana.",
        ("e nel fine settimana?",),
    ),
    "pt": (
        "Quem leva o pager?",
        "O pager fica com a equipa de plataforma; no fim de semana há duas pessoas com o pager.",
        "A cantina fecha no fim de semana.",
        ("e no fim de semana?",),
    ),
    "nl": (
        "Wie draagt de pieper?",
        "De pieper is van het platformteam; in het weekend dragen twee mensen de pieper.",
        "De kantine is in het weekend gesloten.",
        ("en in het weekend?",),
    ),
    "ru": (
        "Кто носит пейджер?",
        "Пейджер носит команда платформы; в выходные пейджер носят двое.",
        "Столовая в выходные закрыта.",
        ("а в выходные?",),
    ),
    "ko": (
        "호출기는 누가 가지고 있나요?",
        "호출기는 플랫폼 팀이 가지고 있습니다. 주말에는 두 사람이 호출기를 가지고 있습니다.",
        "주말에는 식당이 문을 닫습니다.",
        ("그럼 주말에는?", "주말은요?", "주말에는?"),
    ),
    "zh": (
        "寻呼机由谁携带?",
        "寻呼机由平台团队携带,周末由两个人携带寻呼机。",
        "周末食堂不开门。",
        ("那周末呢?", "周末呢?"),
    ),
    "ja": (
        "ポケベルは誰が持ちますか?",
        "ポケベルは基盤チームが持ちます。週末は二人がポケベルを持ちます。",
        "週末は食堂が閉まります。",
        ("週末は?", "では、週末は?", "週末はどうですか?"),
    ),
    "th": (
        "ใครถือเพจเจอร์",
        "ทีมแพลตฟอร์มเป็นผู้ถือเพจเจอร์ ในวันหยุดมีสองคนถือเพจเจอร์",
        "โรงอาหารปิดในวันหยุด",
        ("แล้ววันหยุดล่ะ", "วันหยุดล่ะครับ"),
    ),
    "vi": (
        "Ai mang máy nhắn tin?",
        "Nhóm nền tảng mang máy nhắn tin; cuối tuần hai người mang máy nhắn tin.",
        "Nhà ăn đóng cửa vào cuối tuần.",
        ("còn cuối tuần thì sao?", "cuối tuần thì sao?"),
    ),
}
PAGES = {
    "badge": "A visitor badge is issued at the reception, for a day.",
    "parking": "The garage has forty places. Bicycles stand in the yard.",
    "scanner": "The scanner has a warranty of three years.",
    "printer": "The printer has a warranty of two years.",
}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    _, page, other, _ = CONVERSATIONS["en"]
    with Engine.open(":memory:", embedder="hashed") as engine:
        texts = {**PAGES, "pager": page, "other": other}
        engine.add_documents([Document(name, text) for name, text in texts.items()])
        yield engine


def search_after(engine: Engine, before: str, text: str) -> tuple[list[Hit], str]:
    """The hits of a question after another, and the query that was searched."""
    with record() as trace:
        hits = engine.search(text, history=[Message(before)])
    expanded = trace.find("expand")
    return hits, str(expanded.notes.get("query", text)) if expanded else text


@pytest.mark.parametrize("code", CONVERSATIONS)
def test_a_follow_up_is_expanded_in_each_language(code: str) -> None:
    before, page, other, follow_ups = CONVERSATIONS[code]
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document("pager", page), Document("other", other)])
        for text in follow_ups:
            hits, query = search_after(engine, before, text)
            assert query != text
            assert query.endswith(text)
            assert hits[0].document.id == "pager"


@pytest.mark.parametrize("text", ["visitor badge", "bicycles", "garage places?", "visitor badge reception"])
def test_keywords_for_something_new_are_searched_as_they_are(engine: Engine, text: str) -> None:
    hits, query = search_after(engine, "who carries the pager?", text)
    assert query == text
    assert hits[0].document.id in ("badge", "parking")


NAMES = {
    "Men in Black cast": "Men in Black: the cast is led by Will Smith and Tommy Lee Jones.",
    "Ale house opening hours": "The ale house has its opening hours on the door.",
    "AND gate truth table": "The truth table of an AND gate has one row with a true output.",
    "This American Life host": "This American Life: the host is Ira Glass.",
    "那英的歌": "那英的歌在酒店大厅播放。",
}


def test_names_that_open_like_a_follow_up_are_searched_as_they_are() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        texts = {**PAGES, **NAMES, "pager": CONVERSATIONS["en"][1]}
        engine.add_documents([Document(name, text) for name, text in texts.items()])
        for text in NAMES:
            hits, query = search_after(engine, "who carries the pager?", text)
            assert query == text
            assert hits[0].document.id == text
        for text in ("and the warranty?", "this warranty for contractors?", "¿a quién se lo pido?", "那周末"):
            assert search_after(engine, "who carries the pager?", text)[1] != text


def test_keywords_that_belong_to_what_was_talked_of_are_expanded(engine: Engine) -> None:
    for device in ("scanner", "printer"):
        hits, query = search_after(engine, f"what does the {device} cost?", "warranty")
        assert query.endswith(f"{device} cost: warranty")
        assert hits[0].document.id == device


def test_a_new_topic_is_judged_by_what_may_be_seen(engine: Engine) -> None:
    inside = engine.within(Filter(documents={"pager", "other"}))
    assert search_after(engine, "who carries the pager?", "visitor badge")[1] == "visitor badge"
    assert search_after(inside, "who carries the pager?", "visitor badge")[1] != "visitor badge"


def test_the_trace_says_why_a_question_was_not_expanded(engine: Engine) -> None:
    with record() as trace:
        engine.search("visitor badge", history=[Message("who carries the pager?")], k=3)
    step = trace.find("expand")
    assert step is not None
    assert step.notes == {"reason": "it finds something else by itself than what was talked of"}


def test_the_rest_of_a_question_is_a_follow_up(engine: Engine) -> None:
    for text in ("with a visitor badge?", "only for bicycles?"):
        assert search_after(engine, "who carries the pager?", text)[1] != text
    assert search_after(engine, "who carries the pager?", "On what days are bicycles in the yard?")[1].startswith("On")


REWRITTEN = "how long is the warranty of the printer?"
DEVICES = (Message("what does the printer cost?"), Message("It costs nothing.", role="assistant"))


def open_with(llm: ScriptedLLM) -> Engine:
    engine = Engine.open(":memory:", embedder="hashed", llm=llm)
    engine.add_documents([Document(name, text) for name, text in PAGES.items()])
    return engine


def test_a_language_model_that_answers_writes_a_follow_up_out_first() -> None:
    said = f"{PAGES['printer']} [1]"
    llm = ScriptedLLM(lambda prompt: REWRITTEN if "The last question: how long is it?" in prompt else said)
    with open_with(llm) as engine:
        engine.search("how long is it?", history=DEVICES)
        engine.context("how long is it?", history=DEVICES)
        assert not llm.requests  # who only searches pays for no answer
        answer = engine.ask("how long is it?", history=DEVICES)
        assert (answer.question, answer.searched) == ("how long is it?", REWRITTEN)
        written_out, answered = llm.requests
        assert "user: what does the printer cost?" in written_out.prompt
        assert REWRITTEN in answered.prompt
        assert answer.context.passages[0].chunks[0].chunk == engine.search(REWRITTEN)[0].chunk


@pytest.mark.parametrize(
    ("reply", "searched"),
    [
        ('"How long is it"', ""),
        *((reply, "printer cost nothing: how long is it?") for reply in (None, "", "one question?\nor another one?")),
    ],
)
def test_where_the_model_writes_no_question_keywords_are_added_and_one_that_it_repeats_stays(
    reply: str | None, searched: str
) -> None:
    def answer(prompt: str) -> str:
        if "The last question" not in prompt:
            return "NOT FOUND"
        if reply is None:
            raise DriverFailed("asleep")
        return reply

    with open_with(ScriptedLLM(answer)) as engine:
        assert engine.ask("how long is it?", history=DEVICES).searched == searched


def test_a_question_on_something_new_is_answered_as_without_the_conversation(engine: Engine) -> None:
    before = engine.ask("who carries the pager?")
    history = [Message(before.question), Message(before.text, role="assistant")]
    for question in ("How many places does the garage have?", "Where is a visitor badge issued?"):
        alone, after = engine.ask(question), engine.ask(question, history=history)
        assert after.searched == ""
        assert (after.text, after.confidence) == (alone.text, alone.confidence)


def test_a_follow_up_is_told_nothing_of_what_is_hidden() -> None:
    llm = ScriptedLLM("NOT FOUND")
    with open_with(llm) as engine:
        engine.ask("how long is it?", history=DEVICES, where=Filter(documents={"scanner"}))
        seen = engine.within(Filter(documents={"scanner"})).search("how long is it?", history=DEVICES)
    assert {hit.document.id for hit in seen} == {"scanner"}
    assert llm.requests
    assert not any("two years" in request.prompt for request in llm.requests)


def test_a_short_question_that_several_texts_answer_is_one_of_its_own() -> None:
    with Engine.open(":memory:", embedder="hashed") as engine:
        engine.add_documents([Document(name, text) for name, text in PAGES.items()])
        engine.add_documents(
            [Document(f"offsite {day}", f"The offsite is on {day}.") for day in ("Tuesday", "Wednesday", "Friday")]
        )
        assert (
            search_after(engine, "who carries the pager at night?", "when is the offsite?")[1] == "when is the offsite?"
        )


def test_words_about_an_answer_are_no_keywords(engine: Engine) -> None:
    before = engine.ask("why?")
    assert before.text.startswith("No passage clearly answers this.")
    history = [Message("why?"), Message(before.text, role="assistant")]
    with record() as trace:
        engine.search("and how long?", history=history)
    assert "clearly" not in str(trace.find("expand"))
