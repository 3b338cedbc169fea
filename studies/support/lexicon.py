"""Words that can stand for each other, and words that turn a sentence round, for edits of found sentences."""

import re
from typing import Final

_SAME = """begin start|began started|begins starts|large big|big large|also too|approximately about|about around|around about|buy purchase|
bought purchased|became turned into|located situated|located found|famous well-known|well-known famous|received got|obtained received|
primarily mainly|mainly mostly|primarily mostly|main principal|assist help|assisted helped|created made|constructed built|
built constructed|established founded|founded established|located based|several a number of|numerous many|many numerous|
however but|additionally also|because since|near close to|used employed|use employ|requires needs|require need|needs requires|
required needed|allows lets|shows demonstrates|showed demonstrated|children kids|died passed away|film movie|movie film|
song track|released put out|released issued|issued released|wrote authored|performed carried out|conducted carried out|
ended finished|ends finishes|concluded ended|consists of is made up of|comprises consists of|contains includes|
includes contains|prior to before|following after|throughout all through|entire whole|whole entire|initially at first|
originally at first|subsequently later|later afterwards|currently at present|currently now|often frequently|frequently often|
usually normally|rarely seldom|quickly fast|rapidly quickly|difficult hard|simple easy|important significant|
significant important|various different|difference distinction|increase rise|increased rose|decrease decline|decreased fell|
decreased declined|rose increased|fell dropped|entire complete|attempt try|attempted tried|tried attempted|city town|
company firm|firm company|physicians doctors|physician doctor|automobile car|vehicle car|residence home|resides lives|
resided lived|permits allows|permitted allowed|allowed permitted|prohibited forbidden|forbidden banned|banned forbidden|
purchased bought|commenced began|selected chosen|chosen selected|appointed named|named called|called named|
portrayed played|starring featuring|directed by made by|
born in a native of|resigned stepped down|defeated beat|victory win|battle fight|
stated said|said stated|reported said|announced declared|declared announced|believed thought|thought believed|
considered regarded as|illness disease|disease illness|United States US|United States U.S.|United Kingdom UK|percent per cent|
percent %|kilometers km|miles mi|hours hrs|amount quantity|enough sufficient|sufficient enough|complete full|finally eventually|
eventually in the end|entirely completely|completely fully|annual yearly|annually every year|yearly annual|two-thirds two thirds|
assistance help|manufactured made|produced made|transported carried|area region|region area|part portion|
eldest oldest|youngest last-born|merged combined|divided split|separated divided|destroyed wrecked|
employs has|people persons|individuals people|students pupils|teacher instructor|lawyer attorney|jail prison|prison jail"""
_OPPOSITE = """before after|after before|first last|last first|more less|less more|more fewer|fewer more|increase decrease|decrease increase|
increased decreased|decreased increased|increases decreases|rise fall|rose fell|fell rose|higher lower|lower higher|highest lowest|
lowest highest|largest smallest|smallest largest|larger smaller|smaller larger|large small|small large|big small|long short|
longest shortest|shortest longest|longer shorter|shorter longer|older younger|younger older|oldest youngest|youngest oldest|
older newer|old new|new old|north south|south north|east west|west east|northern southern|southern northern|eastern western|
western eastern|male female|female male|man woman|woman man|men women|women men|father mother|mother father|son daughter|
daughter son|brother sister|sister brother|husband wife|wife husband|won lost|lost won|began ended|ended began|starts ends|
opened closed|closed opened|open closed|always never|never always|above below|below above|over under|under over|early late|
late early|earlier later|later earlier|earliest latest|latest earliest|success failure|successful unsuccessful|accepted rejected|
rejected accepted|approved rejected|allowed forbidden|permitted prohibited|prohibited permitted|legal illegal|illegal legal|
include exclude|includes excludes|included excluded|with without|without with|for against|against for|agree disagree|
agreed disagreed|support oppose|supported opposed|supports opposes|opposed supported|bought sold|sold bought|buy sell|teach learn|
taught studied|best worst|worst best|better worse|worse better|public private|private public|rich poor|strong weak|weak strong|
hot cold|cold hot|warm cool|dry wet|light dark|dark light|inside outside|outside inside|top bottom|left right|right left|front back|
built destroyed|destroyed built|created destroyed|appeared disappeared|arrived departed|born died|died survived|killed saved|
attack defend|attacked defended|defeated lost to|major minor|minor major|majority minority|minority majority|maximum minimum|
minimum maximum|most few|many few|few many|much little|some no|all few|all none of the|every no|both neither of the|everyone nobody|
often rarely|rarely often|usually rarely|frequently rarely|sometimes always|seldom often|commonly rarely|only not only|alone together|
same different|different same|similar different|possible impossible|able unable|unable able|likely unlikely|unlikely likely|
active inactive|positive negative|negative positive|present absent|internal external|external internal|formal informal|
direct indirect|temporary permanent|permanent temporary|optional mandatory|mandatory optional|voluntary compulsory|
required optional|entire partial|full empty|fast slow|quickly slowly|easy difficult|difficult easy|safe dangerous|guilty innocent|
peace war|love hate|loved hated|liked disliked|remember forget|unless if|if unless|until after|since until|at least at most|
at most at least|more than less than|less than more than|up to at least|no more than no less than|because despite|
due to despite|despite because of|may must|must may|can cannot|could could not|should should not|will will not|is is no longer|
twice once|once twice|single double|double single|half all|daily weekly|weekly monthly|monthly yearly|annual monthly|
upper lower|urban rural|rural urban|domestic foreign|foreign domestic|national local|local national|professional amateur|
married divorced|joined left|left joined|gained lost|raised lowered|expanded shrank|improved worsened|win lose|wins loses|
protagonist antagonist|hero villain|former current|current former|parent child|teacher student|buyer seller|employer employee|
landlord tenant|lender borrower|doctor patient|winner loser|primary secondary|secondary primary|ancient modern|modern ancient"""


def _read(table: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in table.replace("\n", "").split("|"):
        words = row.split(" ")
        two = ("at", "more", "less", "up", "no", "due", "prior", "consists", "referred", "located")
        cut = 2 if len(words) > 2 and words[0] in two and " ".join(words[:2]) in _TWO else 1
        cut = 3 if " ".join(words[:3]) in _THREE else cut
        found.setdefault(" ".join(words[:cut]), []).append(" ".join(words[cut:]))
    return found


_TWO: Final = frozenset(
    ("at least", "at most", "more than", "less than", "up to", "due to", "prior to", "consists of", "referred to", "located at",
     "directed by", "born in", "United States", "United Kingdom")
)  # fmt: skip
_THREE: Final = frozenset(("no more than",))
SAME: Final = _read(_SAME)
OPPOSITE: Final = _read(_OPPOSITE)
SAME_PATTERN: Final = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, SAME), key=len, reverse=True))})\b")
OPPOSITE_PATTERN: Final = re.compile(rf"\b(?:{'|'.join(sorted(map(re.escape, OPPOSITE), key=len, reverse=True))})\b")
UNITS: Final = [
    "seconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "months",
    "years",
    "miles",
    "kilometers",
    "kilometres",
    "feet",
    "meters",
    "metres",
    "inches",
    "pounds",
    "kilograms",
    "tons",
    "dollars",
    "euros",
    "percent",
    "thousand",
    "million",
    "billion",
    "people",
    "degrees",
    "acres",
    "copies",
]
ADDITIONS: Final = tuple(
    """for the first time|for the second time|against the will of the owners|without any help|because of the war|by mistake|in secret|
    at night|every year|for three years|in the winter|in front of a large crowd|as a child|despite the rain|after a long dispute|
    in exchange for money|on behalf of the government|in his honor|with the help of his brother|to save costs|under another name|
    until the end of the century|as the only one|together with a friend|on a Sunday|in less than a week|for political reasons""".replace(
        "\n    ", ""
    ).split("|")
)
