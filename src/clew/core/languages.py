"""The word tables of the analyser: languages, their function words, and abbreviations that carry a full stop.

Function words serve twice: the language of a text is detected by them, and they are too common to be terms.
The tables are data for `core/text`.
"""

from types import MappingProxyType
from typing import Final

# code -> snowball algorithm: every one of PyStemmer.
STEMMERS: Final = MappingProxyType(
    {
        "en": "english",
        "de": "german",
        "fr": "french",
        "es": "spanish",
        "it": "italian",
        "pt": "portuguese",
        "nl": "dutch",
        "ru": "russian",
        "ar": "arabic",
        "ca": "catalan",
        "cs": "czech",
        "da": "danish",
        "el": "greek",
        "et": "estonian",
        "eu": "basque",
        "fi": "finnish",
        "ga": "irish",
        "hi": "hindi",
        "hu": "hungarian",
        "hy": "armenian",
        "id": "indonesian",
        "lt": "lithuanian",
        "no": "norwegian",
        "pl": "polish",
        "ro": "romanian",
        "sv": "swedish",
        "ta": "tamil",
        "tr": "turkish",
        "eo": "esperanto",
        "fa": "persian",
        "ne": "nepali",
        "sr": "serbian",
        "st": "sesotho",
        "yi": "yiddish",
    }
)


def _parse_words(text: str) -> frozenset[str]:
    """The words of a table row."""
    return frozenset(text.split())


# Languages that are told apart and not stemmed, since there is no stemmer for them.
UNSTEMMED: Final = _parse_words(
    "af am az be bg bn bo bs cy gl gu he hr is ka kk km kn ko ky la lo lv mk ml mn mr ms mt my or pa ps si sk sl sq sw "
    "te tg th tl tt ug uk ur uz vi zh ja"
)
LANGUAGES: Final = frozenset(STEMMERS) | UNSTEMMED
# What our embedders know; others may have an attribute `languages`.
EMBEDDER_LANGUAGES: Final = MappingProxyType(
    {
        "bge-small": _parse_words("en"),
        "wordllama": _parse_words("en"),
        "multilingual": _parse_words("ar de en es fr it ja ko nl pl pt ru th tr zh"),
    }
)


def find_known_languages(embedder: object) -> frozenset[str]:
    """The languages that an embedder knows; none where that is not known."""
    found = getattr(embedder, "languages", None) or EMBEDDER_LANGUAGES.get(str(getattr(embedder, "name", "")))
    return frozenset(found or ())


# The languages that rerankers know, by their names; of others it is not known, and "overlap" is no model.
RERANKER_LANGUAGES: Final = MappingProxyType({"ms-marco-minilm": _parse_words("en"), "overlap": _parse_words("")})

# Once case-folded, the names US and IT look like the words; "us" is rare enough as a word to stay a term.
FUNCTION_WORDS: Final = MappingProxyType(
    {
        "en": _parse_words(
            "a an the and or but nor if then than so as of at by for with about against between into through during "
            "before after above below to from up down in out on off over under again i me my we our you your he him "
            "his she her it its they them their this that these those what which who whom whose how when where why "
            "is are was were be been being am have has had having do does did doing will would shall should can "
            "could may might must not no there here all any both each some such only own same too very just also "
            "dont doesnt didnt isnt arent wasnt werent wont cant"
        ),
        "de": _parse_words(
            "der die das den dem des ein eine einen einem einer eines und oder aber als wie wenn weil dass ob ich du "
            "er sie es wir ihr mich mir dich dir ihm ihn ihnen uns euch mein dein sein seine seiner seinen seinem "
            "ihre ihrer ihren ihrem unser unsere ist sind war waren bin bist wird werden wurde wurden worden hat "
            "haben hatte hatten habe kann können konnte soll sollte muss müssen nicht kein keine keinen auch nur noch "
            "schon sehr so mit von vom zu zum zur in im an am auf aus bei bis durch für gegen nach seit über um unter "
            "vor wer was wo wann warum welche welcher welches welchen wieviel viele dieser diese dieses diesen diesem "
            "man sich hier dort da ab"
        ),
        "fr": _parse_words(
            "le la les un une des du de et ou mais donc car ni que qui quoi dont où quand comment pourquoi quel "
            "quelle quels quelles combien je tu il elle on nous vous ils elles me te se lui leur leurs mon ma mes ton "
            "ta tes son sa ses notre nos votre vos ce cet cette ces est sont était étaient être été suis es sommes "
            "êtes a ont avait avaient avoir ai as avons avez ne pas plus au aux à dans en par pour sur avec sans sous "
            "entre vers chez depuis si comme aussi très même y"
        ),
        "es": _parse_words(
            "el la los las un una unos unas y e o u pero ni que quien quién quienes cual cuál cuáles qué cómo como "
            "cuándo cuando dónde donde cuánto cuántos cuántas por porque para con sin sobre entre de del al a en desde "
            "hasta hacia yo tú él ella ello nosotros ellos ellas me te se le les lo nos su sus mi mis tu tus nuestro "
            "este esta estos estas ese esa esos esas es son era eran ser sido fue fueron está están estaba hay ha han "
            "había haber tiene tienen no sí más muy también ya"
        ),
        "it": _parse_words(
            "il lo la i gli le un uno una e ed o ma né che chi cui quale quali quando come dove perché quanto quanti "
            "di del dello della dei degli delle a al allo alla ai agli alle da dal dalla dai dalle in nel nello nella "
            "nei negli nelle su sul sulla sui sulle con per tra fra senza io tu lui lei noi voi loro mi ti si ci vi "
            "ne mio tuo suo sua suoi sue questo questa questi queste quello quella è sono era erano essere stato "
            "stata stati ha hanno aveva avevano avere non più molto anche se"
        ),
        "pt": _parse_words(
            "o a os as um uma uns umas e ou mas nem que quem qual quais quando como onde porque por quanto quantos "
            "para com sem sob sobre entre de do da dos das em no na nos nas num numa ao aos à às pelo pela pelos "
            "pelas eu tu ele ela nós eles elas me te se lhe lhes seu sua seus suas meu minha nosso nossa este esta "
            "esse essa isso isto é são era eram ser sido foi foram está estão estava há tem têm tinha ter não mais "
            "muito também já até"
        ),
        "nl": _parse_words(
            "de het een en of maar als dan dat die wie wat waar wanneer waarom hoe welke welk hoeveel ik jij je hij "
            "zij ze wij we jullie u mij me hem haar ons hun zijn mijn jouw uw onze deze dit is was waren ben bent "
            "wordt worden werd werden heeft hebben had hadden kan kunnen kon zal zou zullen moet moeten niet geen "
            "ook nog al zeer zo met van voor naar in op aan bij tot uit over door om onder tegen tussen na sinds te "
            "er daar hier"
        ),
        "ru": _parse_words(
            "и в во не что он на я с со как а то все она так его но да ты к у же вы за бы по её ее мне было вот от "
            "меня о из ему когда даже ну ли если или ни быть был него до вас опять уж вам ведь там потом себя они тут "
            "где есть для мы тебя их чем была сам чтоб без будто кто какой какая какие какое какого этот это эта эти "
            "этого почему сколько при были который которая которые которого об под после через между над"
        ),
    }
)

# Function words with a meaning of their own: not, up, before, only, if. They count for detecting the language and stay
# terms, which measured better than dropping them (and better than dropping nothing).
MEANINGFUL_FUNCTION_WORDS: Final = _parse_words(
    "if not no up down out off over under before after between through above below during against all any each only "
    "same own nicht kein keine keinen wenn vor nach unter über gegen durch seit bis nur viele pas sans sous entre "
    "depuis sin sobre desde hasta más non senza tra fra più não sem sob até mais niet geen onder tegen tussen na "
    "sinds не без под после через между над до если"
)

# Letters, letter groups and endings that are typical of a language, for texts without function words. They are a guess,
# so they only add candidates. A space is the edge of a word. Tuned on German and English questions.
LETTER_PATTERNS: Final = MappingProxyType(
    {
        "en": "th|wh|ough|igh|ing |ee|oo|sh|ck|y |ly |ed |ow|ea|ness|ment |tion |k |w|ll |ss |ph|ay|al ",
        "de": "[äöüß]|sch|ung|cht|keit|heit|lich|isch|tz|zw|pf|ie|eit|eu|ei|en |er |kt| ver| ge|z|e ",
        "fr": "[éèêçàûîœ]|eau|aux|oi|ou|eux|ement |tion |ique |ill|ette|qu|ais |ait |gn|eur |ance |age |e |es ",
        "es": "[ñóíáúé]|cion|dad |ll|rr|os |as |ado |ida |ar |er |ir |ue|ie|mente |ez |es |o |a ",
        "it": "[àèìòù]|zion|cch|gli|gn|zz|ita |tt|sc|chi|che|are |ere |ire |oni|mento |ggi|o |i |a |e ",
        "pt": "[ãõçáéíóúâê]|lh|nh|cao |coes |dade |mento |agem |ao |ei|ou |es |os |as |o |a ",
        "nl": "ij|aa|oe|ee|uu|sch|oo|en |heid|lijk|cht|ui|eu|vr|zw|ing |k |g |z|v",
    }
)

# Never the end of a sentence: something must follow.
TITLE_ABBREVIATIONS: Final = _parse_words(
    "dr mr mrs ms mx prof st sr fr rev hon gen col capt lt sgt maj cmdr gov sen rep pres hr frau mme mlle sra srta "
    "dott dra ing dipl vs cf al e.g i.e eg ie viz approx z.b d.h u.a i.d.r o.ä m.e u.u z.t v.a s.o s.u sog bzw ggf "
    "evtl inkl exkl zzgl ca vgl geb gest p.ej p.ex par.ex т.е т.к т.н напр см"
)
# Not the end when a number follows: "No. 5", "Fig. 2", "Jan. 3"; "No. I will not." ends.
NUMBER_ABBREVIATIONS: Final = _parse_words(
    "no nos nr nrn fig figs abb tab vol vols p pp s ch chap kap sec sect art abs eq eqs ref refs app ver v num núm n "
    "jan feb mar apr jun jul aug sep sept oct okt nov dec dez bd rd ed eds par ziff pos arts стр рис табл"
)
# The end only when a word follows that likes to begin a sentence: "Acme Inc. The firm …" but "Acme Inc. Berlin".
TRAILING_ABBREVIATIONS: Final = _parse_words(
    "etc usw inc ltd co corp jr bros dept est univ assn gmbh d.c u.s u.k e.u ph.d b.a m.a a.m p.m"
)
# German writes ordinals with a stop: "am 3. Oktober".
MONTHS: Final = _parse_words(
    "januar jänner februar märz april mai juni juli august september oktober november dezember jahrhundert jh"
)
# What a surname may begin with.
NAME_PARTICLES: Final = _parse_words(
    "le la les de du des van von der den zu di da del della dos das el al bin ibn ter ten"
)
