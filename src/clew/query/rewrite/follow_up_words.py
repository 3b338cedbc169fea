"""The words by which a follow-up shows that it is one, by language: data for `ellipsis`, which has those of English.

Each language has openings ("und am Wochenende?"), words for something said before ("wer genehmigt das?"), which count
only where a question says little else, and some have endings ("那周末呢?"). The tables are short on purpose: whether a
short question without such a word is a follow-up is decided by the collection. A question word makes a whole question
of a few words ("wer schrieb Hamlet?").
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from clew.core.pattern import compile_pattern


class FollowUpWords(NamedTuple):
    """The patterns of a language.

    With a weak ending a question may be one of its own, too ("週末は?"), with a weak opening a name ("那英的歌").
    """

    opening: re.Pattern[str]
    pointer: re.Pattern[str] | None
    ending: re.Pattern[str] | None
    weak_ending: re.Pattern[str] | None
    weak_opening: re.Pattern[str] | None = None


def _compile_spaced(opening: str, pointer: str = "", ending: str = "") -> FollowUpWords:
    """Patterns of whole words; in a pointer, `$` stands for the end of the question."""
    pointer = pointer.replace("$", r"\W*$")
    return FollowUpWords(
        compile_pattern(rf"\W*(?P<word>{opening})(?!\w)", re.IGNORECASE),
        compile_pattern(rf"(?<!\w)(?:{pointer})(?!\w)", re.IGNORECASE) if pointer else None,
        compile_pattern(rf"(?<!\w)(?:{ending})\W*$", re.IGNORECASE) if ending else None,
        None,
    )


def _compile_unspaced(
    opening: str, pointer: str, ending: str, weak_ending: str = "", weak_opening: str = ""
) -> FollowUpWords:
    """Patterns of a script in which nothing separates words, or particles are attached to them."""
    return FollowUpWords(
        compile_pattern(rf"\W*(?P<word>{opening})"),
        compile_pattern(pointer),
        compile_pattern(rf"(?:{ending})\W*$"),
        compile_pattern(rf"(?:{weak_ending})\W*$") if weak_ending else None,
        compile_pattern(rf"\W*(?P<word>{weak_opening})") if weak_opening else None,
    )


FOLLOW_UP_WORDS: Final[Mapping[str, FollowUpWords]] = MappingProxyType(
    {
        "de": _compile_spaced(
            "und|oder|aber|sonst|was ist mit|wie (?:ist|sieht|steht) es",
            r"das(?=\s+(?:auch|dann|noch|für|bei|am|im|in|nicht|mit|von)\b)|das$|es$|ihn|ihm|ihnen|dafür|davon|dazu|daran"
            "|darüber|dabei|dort|derselbe|dasselbe|auch",
        ),
        "fr": _compile_spaced(
            "et|ou|mais|sinon|qu[’']en est-il|quid",
            r"cela|ça|celui-ci|celle-ci|ceux-ci|celles-ci|lui|eux|ils|elles|aussi|qui l(?:e|a|es)\b"
            r"|(?:qui|on) l[’']\w+|(?:qui|quand|où|comment|quel(?:le)?s?)(?: \w+){1,2} (?:son|sa|ses|leurs?)",
        ),
        "es": _compile_spaced(
            "y|e|o|pero|qu[eé] (?:pasa|hay) con|qu[eé] tal",
            "eso|esto|ello|él|ella|ellos|ellas|lo mismo|también|(?:quién|quien|quiénes|me|te|se|nos) l[oa]s?",
        ),
        "it": _compile_spaced("e|ed|o|ma", "ciò|questo|quello|esso|essa|essi|lo stesso|anche|chi l[oaie]"),
        "pt": _compile_spaced("e|ou|mas|que tal", "isso|isto|ele|ela|eles|elas|o mesmo|também|quem [oa]s?"),
        "nl": _compile_spaced(
            "en|of|maar|hoe zit het|wat met", r"dat|dit|hem|het$|wie \w+ het|daarvoor|daarvan|ervan|ervoor|ook"
        ),
        "sv": _compile_spaced("och|eller|men|hur är det", "det$|den$|dem|dessa|också"),
        "da": _compile_spaced("og|eller|men|hvad med", "det$|den$|dem|disse|også"),
        "no": _compile_spaced("og|eller|men|hva med", "det$|den$|dem|disse|også"),
        "fi": _compile_spaced("ja|entä|entäpä|tai|mutta", "sen|sitä|niitä|hän|myös"),
        "pl": _compile_spaced("a|i|albo|ale|co z", "to$|tego|go|je$|ich|oni|też|także"),
        "cs": _compile_spaced("a|i|nebo|ale|co takhle", "to$|toho|ho|jich|oni|také|taky"),
        "ro": _compile_spaced("și|şi|sau|dar", "asta|acesta|aceasta|el|ea|ele|de asemenea"),
        "hu": _compile_spaced("és|vagy|mi a helyzet", "azt|ezt|is$"),
        "tr": _compile_spaced("ve|veya|ya|peki|ama", "bunu|onu|onun|bunun|onları|buna|ona|da$|de$"),
        "id": _compile_spaced("dan|atau|tapi|tetapi|bagaimana dengan|kalau|lalu", "itu$|dia|mereka|juga"),
        "vi": _compile_spaced("còn|và|vậy|thế còn|nhưng", "nó|cái đó|điều đó|việc đó", "thì sao|thì thế nào"),
        "ru": _compile_spaced(
            "а|и|или|но|(?:что|как) насч[её]т", "это$|кто это|этого|его|её|ее|их|он|она|они|тоже|также"
        ),
        "uk": _compile_spaced("а|і|й|та|або|але|(?:що|як) щодо", "це$|хто це|цього|його|її|їх|він|вона|вони|теж|також"),
        "bg": _compile_spaced("а|и|или|но", "това$|го|ги|той|тя|също"),
        "el": _compile_spaced("και|κι|ή|αλλά|τι γίνεται με", "αυτό|αυτά|αυτός|αυτή|επίσης"),
        "ar": _compile_spaced(
            "أو|لكن|ماذا عن|و(?:ماذا|كيف|متى|أين|من|هل|في|على|ما|كم|لماذا|إذا)", "هذا|ذلك|تلك|هو|هي|هم|أيضا|أيضًا"
        ),
        "fa": _compile_spaced("و|یا|اما|ولی|پس", "آن|آنها|او|همان|هم", "چطور"),
        "he": _compile_spaced(
            "או|אבל|מה (?:עם|לגבי)|ו(?:מה|איך|מתי|איפה|מי|האם|כמה|למה|אם)|וב\\w+", "זה|זאת|אותו|אותה|הוא|היא|הם|גם"
        ),
        "hi": _compile_spaced("और|या|लेकिन|तो", "यह|वह|वे|इसे|उसे|इसका|उसका|उन्हें|भी", "का क्या|के बारे में क्या"),
        "zh": _compile_unspaced(
            r"(?:那[么麼]?|他|她)(?=\W)|那(?=[么麼个個些是在有要如怎什谁誰我你您他她它])|另外|以及|而且|但是|或者|它"
            "|[他她](?=[们們是的有在会會能要也怎什])",
            "它|他们|她们|他們|她們",
            "呢|也是吗|也是嗎|也一样吗|也一樣嗎",
            weak_opening="那(?!不勒斯|霸)|她|他(?![汀人乡鄉国國])",
        ),
        "ja": _compile_unspaced(
            "では|じゃ[あ、]|(?:それ|そこ)[はがをにもでの、]|それら|その(?:、|場合)|そちら|で、|でも、|彼(?:は|が|ら|女|の)",
            "それ[はがをにもでの]|そこ[はがをにもでの]|そちら|彼ら|彼女",
            "はどう(?:です|でしょう)?か?|は(?:いかが|如何)ですか|も(?:同じ)?ですか",
            "は|って|の場合",
            "その|それ|そこ",
        ),
        "ko": _compile_unspaced(
            "그럼|그러면|그리고|그건|그것|그게|그거|그런데|근데|또는|혹은",
            "그것|그거|그건|그게|그들",
            "[은는]요|도요|[은는] 어때요?|[은는] 어떤가요|[은는] 어떻게 되나요",
            "[은는도]|경우",
        ),
        "th": _compile_unspaced("แล้ว|และ|หรือ", "พวกเขา|อันนั้น|สิ่งนั้น", "ล่ะ(?:คะ|ครับ)?|หล่ะ|ด้วยไหม"),
    }
)

QUESTION_WORD: Final = compile_pattern(
    r"\W*(?:who|what|when|where|why|which|whose|how"
    r"|wer|wen|wem|was|wann|wo|warum|wie|wessen|welche[rsmn]?"
    r"|qui|que|quoi|quand|où|pourquoi|comment|quel(?:le)?s?|combien"
    r"|quién(?:es)?|qué|cuándo|dónde|cómo|cuál(?:es)?|cuánt[oa]s?"
    r"|chi|che|quando|dove|perché|come|qual[ei]?|quant[oaie]"
    r"|quem|onde|por que|como|quais|quant[oa]s|wat|wanneer|waar|waarom|hoe|welke?"
    r"|vem|vad|när|varför|hur|vilke[nt]|vilka|hvem|hvad|hva|hvornår|når|hvor|hvorfor|hvordan|hvilke[nt]?"
    r"|kuka|mikä|mitä|milloin|missä|miksi|miten|kuinka"
    r"|kto|kiedy|gdzie|dlaczego|jak|któr[yae]|kdo|kdy|kde|proč|kter[ýáé]|kolik|cine|când|unde|cum|cât"
    r"|кто|что|когда|где|почему|как|как(?:ой|ая|ое|ие)|сколько|хто|що|коли|чому|скільки"
    r"|ποιος|ποια|ποιο|τι|πότε|πού|γιατί|πώς|kim|hangi|nasıl|siapa|apa|kapan|bagaimana|mengapa|berapa)\b",
    re.IGNORECASE,
)

# Openings in Latin letters that no name or other language begins with: some words, several, or with marks.
UNSHARED_OPENING: Final = compile_pattern(
    r"[Uu]nd|[Oo]ch|[Pp]eki|[Vv]eya|[Aa]tau|[Tt]etapi|[Mm]utta|.* .*|.*[^\x00-\x7f].*"
)

# Verbs that say nothing of the subject of a question and are no stop words.
MODAL: Final = compile_pattern(
    r"doi(?:t|vent|s)|peu(?:t|vent|x)|faut|puede[ns]?|puedo|debe[ns]?|debo|deve|devono|devo|può|posso|possono|pode[m]?",
    re.IGNORECASE,
)
