"""Which questions need the conversation before them."""

import pytest

from clew.query.rewrite.ellipsis import is_elliptic, is_fragment


@pytest.mark.parametrize(
    "question",
    [
        "Show me another example",
        "Can you explain that technique",
        "Tell me more about this",
        "Why?",
        "What about the refresh tokens of the mobile app",
        "And how much does shipping to Norway cost",
        "When did it become Catholic?",
        "What was its religion?",
        "how many films does he appear in",
        "What happens if it does not work well?",
        "Can women play it?",  # nothing in the same clause is what it stands for
        "Is American football derived from it?",
        "who was the arch rival to this series?",
        "is it cheaper for students?",
        "und am Wochenende?",
        "wie sieht es am Wochenende aus?",
        "wer genehmigt das?",
        "et le week-end ?",
        "qui le valide ?",
        "¿quién lo aprueba?",
        "e nel fine settimana?",
        "e no fim de semana?",
        "en in het weekend?",
        "och på helgen?",
        "og i weekenden?",
        "entä viikonloppuna?",
        "a w weekend?",
        "a o víkendu?",
        "și în weekend?",
        "peki hafta sonu?",
        "bagaimana dengan akhir pekan?",
        "còn cuối tuần thì sao?",
        "а в выходные?",
        "а у вихідні?",
        "и кога?",
        "και το σαββατοκύριακο;",
        "وماذا عن عطلة نهاية الأسبوع؟",
        "و آخر هفته چطور؟",
        "ומה בסוף השבוע?",
        "और सप्ताहांत पर?",
        "那周末呢?",
        "谁批准它?",
        "それは誰が承認しますか",
        "그럼 주말에는?",
        "แล้ววันหยุดล่ะ",
    ],
)
def test_elliptic(question: str) -> None:
    assert is_elliptic(question)


@pytest.mark.parametrize(
    "question",
    [
        "How do I configure OAuth authentication",
        "Is herpes a lethal disease and how is it transmitted?",
        "How old was Peyton Manning when he played in Super Bowl 50?",
        "How do I restart a container so that it keeps its volumes",
        "Is it possible to iterate over a dictionary?",
        "How long does it take to get to Mars?",
        "python check if two images are the same",
        "Are Arizona Cardinals and Chicago Cardinals the same team?",
        "Which band has released more albums, Sick Puppies or Third Eye Blind?",
        "Who registered the most sacks on the team this season?",
        "functions that return a function in python",
        "What did Melanie and her family see last year?",
        "How do I reach the IT department by phone",
        "Who likes Quokkas?",
        "what is GraphQL?",
        "这个产品的退款政策是什么",
        "那不勒斯的天气是什么样的",
        "그래프 데이터베이스 설치 방법을 알려 주세요",
        "แต่งงานลาได้กี่วัน",
        "Gibt es einen Parkplatz für Elektroautos?",
        "Comment réserver une place dans le parking ?",
        "Làm thế nào để đặt chỗ đậu xe trong hầm?",
        "E coli infection in hospitals abroad",
        "en route costs for sales trips",
        "a list of approved vendors in europe",
    ],
)
def test_neither_elliptic_nor_a_fragment(question: str) -> None:
    assert not is_elliptic(question)
    assert not is_fragment(question)


@pytest.mark.parametrize(
    "question",
    [
        "any awards",
        "streaming services?",
        "visitor badge",
        "Which is the most popular?",
        "GraphQL",
        "访客胸卡",
        "旅費",
        "週末は?",
        "방문자 배지",
        "Besucherausweis beantragen",
    ],
)
def test_fragments(question: str) -> None:
    assert is_fragment(question)
    assert not is_elliptic(question)
