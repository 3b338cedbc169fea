"""Examples without end, drawn from public pairs, edited paragraphs and made pages in fixed shares.

**True in other words**: what people wrote, alone and two claims in one, of one passage or of two.

**Contrast in four ways**: sentence and edited sentence as the claim, against passage and edited passage, so that the
claim alone tells nothing. **Long premises**: the evidence among sentences of other documents. **Absent evidence**: the
sentence taken out of its passage, or a claim put to a passage that is merely close.
"""

import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from studies.support.edits import NAME, NUMBER, edit_name, edit_number, make_false, paraphrase
from studies.support.material import Material, Pairs, Paragraph
from studies.support.pages import Example, make_page
from studies.support.rewrite import rewrite

CAP = 6000  # claims of a source that count
# How often a source is drawn, for each of its claims; small logic puzzles less than texts that people wrote.
FACTORS = {
    "fever": 2.5,
    "fever_sym": 3.0,
    "fm2": 3.0,
    "fm2_long": 4.0,
    "scifact": 2.0,
    "wice_tok": 0.3,
    "tabfact": 2.5,
    "infotabs": 1.3,
    "cur_drop": 1.3,
    "cur_control": 2.0,
    "cur_coreference": 1.0,
    "conjnli": 0.5,
    "wikifc": 0.4,
    "negnli": 0.7,
    "breaking_nli": 0.6,
    "help": 0.5,
    "med": 0.5,
    "semanto": 0.2,
    "qmsum": 2.0,
    "summary": 2.5,
}
SMALL_FACTOR, SUMMARY_FACTOR = 0.2, 2.5
LONG_SHARE = 0.45  # of short premises that are put among other sentences
SHORT_WORDS = 70
RENAMED_SHARE = 0.5  # of pairs in which a name or number of both is exchanged, so that no claim is learned by heart
NEIGHBOURS = 40  # paragraphs that share a word with a paragraph's title, at most


# Of pairs, edited pairs, two claims in one, edited paragraphs, claims over two paragraphs, made pages.
SHARES = (0.27, 0.13, 0.11, 0.29, 0.07, 0.13)
_JOINED = ("fever", "fever", "fm2", "fm2_long", "infotabs", "tabfact", "scifact", "qmsum", "summary")


class Mixture:
    """Draws examples from material; the same seed gives the same examples."""

    def __init__(self, material: Material, *, shares: Sequence[float] = SHARES) -> None:
        self.material = material
        by_source: dict[str, list[Pairs]] = defaultdict(list)
        for pairs in material.pairs:
            by_source[pairs.source].append(pairs)
        self._sources = [by_source[name] for name in sorted(by_source)]
        weights = []
        for group in self._sources:
            name = group[0].source
            factor = SUMMARY_FACTOR if name.startswith("summedits") else FACTORS.get(name, SMALL_FACTOR)
            weights.append(factor * min(CAP, sum(len(pairs.claims) for pairs in group)))
        self._weights = list(accumulate(weights))
        self._facts = [
            (pairs, claim)
            for pairs in material.pairs
            if not pairs.source.startswith(("cur_", "med", "semanto", "help", "breaking"))
            for claim, label in pairs.claims
            if label == 1
        ] + [
            (pairs, claim)
            for pairs in material.pairs
            if pairs.source in ("cur_drop", "cur_control")
            for claim, label in pairs.claims
            if label == 1
        ]
        self._several = [
            several
            for name in _JOINED
            if (several := [pairs for pairs in by_source.get(name, ()) if len(pairs.claims) > 1])
        ]
        self._shares = list(accumulate(shares))
        self._near: dict[str, list[int]] = defaultdict(list)
        for at, paragraph in enumerate(material.paragraphs):
            for word in {word for word in paragraph.title.split() if len(word) > 3}:
                if len(self._near[word]) < NEIGHBOURS:
                    self._near[word].append(at)

    def draw(self, rng: Random) -> Example:
        """A passage, a claim and its label."""
        kind = bisect(self._shares, rng.random() * self._shares[-1])
        makers = (
            *(self.draw_pair, self.draw_edited_pair, self.draw_joined_pair),
            *(self.draw_paragraph, self.draw_two_paragraphs, make_page),
        )
        return makers[min(kind, len(makers) - 1)](rng)

    def draw_pair(self, rng: Random) -> Example:
        group = self._sources[min(bisect(self._weights, rng.random() * self._weights[-1]), len(self._sources) - 1)]
        pairs = rng.choice(group)
        claim, label = rng.choice(pairs.claims)
        premise = pairs.premise
        one_sided = pairs.source in ("wikifc", "wice_tok", "breaking_nli")
        if one_sided and rng.random() < 0.4:  # these have hardly any true claims
            if pairs.source == "wikifc" and rng.random() < 0.5:
                premise = claim
            claim, label = (
                paraphrase(premise if pairs.source != "wice_tok" else premise.split(". ")[0].rstrip(".") + ".", rng),
                1,
            )
        elif rng.random() < 0.08:  # the claim put to another premise of its source
            other = rng.choice(group)
            if other.premise != premise and not _share_names(other.premise, claim):
                premise, label = other.premise, 0
        if rng.random() < RENAMED_SHARE and (changed := self._change_both(premise, claim, rng)):
            premise, claim = changed
        if len(premise.split()) < SHORT_WORDS and "|" not in premise and rng.random() < LONG_SHARE:
            premise = self._surround(premise, rng)
        return premise, claim, label

    def draw_edited_pair(self, rng: Random) -> Example:
        """A claim that follows in other words, with a number or a name changed in the claim, the premise or both."""
        pairs, claim = rng.choice(self._facts)
        premise = pairs.premise
        changed = self._change_both(premise, claim, rng)
        draw = rng.random()
        if changed is None:
            false = make_false(claim, premise, rng)
            if false and draw < 0.55:
                claim, label = false, 0
            else:
                claim, label = paraphrase(claim, rng), 1
        else:
            premise2, claim2 = changed
            if draw < 0.25:
                claim, label = claim2, 0
            elif draw < 0.45:
                premise, label = premise2, 0
            elif draw < 0.75:
                premise, claim, label = premise2, claim2, 1
            else:
                label = 1
        if len(premise.split()) < SHORT_WORDS and "|" not in premise and rng.random() < LONG_SHARE:
            premise = self._surround(premise, rng)
        return premise, claim, label

    def draw_joined_pair(self, rng: Random) -> Example:
        """Two claims of a premise in one, which follows if both do."""
        pairs = rng.choice(rng.choice(self._several or self._sources))
        true = [claim for claim in pairs.claims if claim[1]]
        if len(true) < 2 and rng.random() < 0.6:
            return self.draw_edited_pair(rng)
        two = true if len(true) > 1 and rng.random() < 0.9 else pairs.claims
        (one, first), (other, second) = rng.sample(two, 2) if len(two) > 1 else (two[0], two[0])
        if first and second and rng.random() < 0.35 and (false := make_false(other, pairs.premise, rng)):
            other, second = false, 0
        premise, claim = pairs.premise, join_claims(one, other, rng)
        if rng.random() < RENAMED_SHARE and (changed := self._change_both(premise, claim, rng)):
            premise, claim = changed
        return premise, claim, int(first and second)

    def draw_two_paragraphs(self, rng: Random) -> Example:
        """A claim that takes a sentence each of two paragraphs, or one whose second half is false or not there."""
        one = rng.choice(self.material.paragraphs)
        other = self._find_neighbour(one, rng) if rng.random() < 0.5 else rng.choice(self.material.paragraphs)
        parts = [self._cut(one, rng)[:7], self._cut(other, rng)[:7]]
        said = [rng.choice(part) for part in parts]
        claims = [
            paraphrase(each, rng, title=paragraph.title) for each, paragraph in zip(said, (one, other), strict=True)
        ]
        label, draw = 1, rng.random()
        if draw < 0.28 and (false := make_false(said[1], " ".join(parts[0] + parts[1]), rng)):
            claims[1], label = paraphrase(false, rng, whole=True), 0
        elif draw < 0.45 and len(parts[1]) > 1 and one is not other:
            parts[1].remove(said[1])
            label = 0
        texts = [f"{each.title}\n{' '.join(part)}" if rng.random() < 0.4 else " ".join(part) for each, part in zip((one, other), parts, strict=True)]  # fmt: skip
        claim = claims[0] if label and rng.random() < 0.3 else join_claims(claims[0], claims[1], rng)
        rng.shuffle(texts)
        return "\n\n".join(texts), claim, label

    def _change_both(self, premise: str, claim: str, rng: Random) -> tuple[str, str] | None:
        """Premise and claim with one number or name, which both have, replaced by the same other one."""
        common = [text for text in set(NUMBER.findall(claim) + NAME.findall(claim)) if text in premise]
        if not common:
            return None
        one = rng.choice(sorted(common))
        change = edit_number if one[0].isdigit() else edit_name
        other = change(f"x {one}", premise if rng.random() < 0.5 else "", rng)[2:]
        if not other or other in premise or other == one:
            return None
        pattern = re.compile(rf"\b{re.escape(one)}(?!\w)")
        return pattern.sub(lambda _: other, premise), pattern.sub(lambda _: other, claim)

    def draw_paragraph(self, rng: Random) -> Example:
        paragraph = rng.choice(self.material.paragraphs)
        sentences = self._cut(paragraph, rng)
        at = rng.randrange(len(sentences))
        said, whole = sentences[at], " ".join(sentences)
        title = paragraph.title if rng.random() < 0.6 else ""
        draw = rng.random()
        if draw < 0.14:  # the evidence is not there
            claim, label = paraphrase(said, rng, title=paragraph.title), 0
            if rng.random() < 0.55 and len(sentences) > 1:
                sentences = sentences[:at] + sentences[at + 1 :]
            else:
                other = self._find_neighbour(paragraph, rng)
                sentences, title = self._cut(other, rng), other.title if title else ""
                if paragraph.title == other.title and said in " ".join(other.sentences):
                    label = 1
        else:
            false = make_false(said, whole, rng)
            built = rewrite(sentences, at, title, rng) if draw < 0.31 and rng.random() < 0.6 else said
            if draw < 0.31 and built != said and (wrong := make_false(built, whole, rng)):
                claim, label = paraphrase(wrong, rng, whole=True), 0
            elif draw < 0.31 and false:
                claim, label = paraphrase(false, rng, title=title, whole=True), 0
            elif draw < 0.40 and false:
                added = false.startswith(said[:-1])  # what is said is then still there
                sentences[at], claim, label = false, paraphrase(said, rng, title=title, whole=True), int(added)
            elif draw < 0.52 and false:
                sentences[at], claim, label = false, paraphrase(false, rng, title=title), 1
            else:
                claim, label = paraphrase(rewrite(sentences, at, title, rng), rng, title=title), 1
        if rng.random() < 0.15 and len(sentences) > 1:  # two sentences in one claim
            near = sentences[(at + 1) % len(sentences)]
            if near != said and near not in claim:
                claim = f"{claim.rstrip('.')}, and {near[:1].lower() + near[1:] if near.startswith(('The ', 'He ', 'She ', 'It ')) else near}"
        elif rng.random() < 0.1 and label:  # a part of it
            claim = paraphrase(claim, rng, title=title)
        if len(sentences) > 4 and rng.random() < 0.35:  # as if they had been gathered from a longer text
            beside = {max(0, at - 1), at, min(len(sentences) - 1, at + 1)}
            sentences = [each for place, each in enumerate(sentences) if place in beside or rng.random() < 0.6]
        passage = " ".join(sentences)
        if rng.random() < 0.4:
            other = self._find_neighbour(paragraph, rng) if rng.random() < 0.6 else rng.choice(self.material.paragraphs)
            if said not in other.sentences:
                more = " ".join(self._cut(other, rng)[:6])
                passage = f"{passage}\n\n{more}" if rng.random() < 0.5 else f"{more}\n\n{passage}"
                title = "" if rng.random() < 0.5 else title
        return (f"{title}\n{passage}" if title else passage), claim, label

    def _cut(self, paragraph: Paragraph, rng: Random) -> list[str]:
        """Some consecutive sentences of a paragraph."""
        sentences = list(paragraph.sentences)
        size = rng.choice((1, 2, 3, 4, 5, 7, 10, 14))
        start = rng.randrange(max(1, len(sentences) - size + 1))
        return sentences[start : start + size]

    def _find_neighbour(self, paragraph: Paragraph, rng: Random) -> Paragraph:
        """A paragraph whose title shares a word, or any other."""
        words = [word for word in paragraph.title.split() if len(self._near.get(word, ())) > 1]
        at = rng.choice(self._near[rng.choice(words)]) if words else rng.randrange(len(self.material.paragraphs))
        return self.material.paragraphs[at]

    def _surround(self, premise: str, rng: Random) -> str:
        """The premise among sentences of other documents."""
        before, after = (self._cut(rng.choice(self.material.paragraphs), rng)[: rng.randrange(6)] for _ in range(2))
        return " ".join([*before, premise, *after])


def join_claims(one: str, other: str, rng: Random) -> str:
    """Two claims in one sentence, or in two."""
    if rng.random() < 0.5:
        one, other = other, one
    common = re.match(r"(?:The|A|An|It|He|She|They|This|In|There|According|Also|Both|Most|Some)\b", other)
    tail = other[:1].lower() + other[1:] if common else other
    between = rng.choice((", and ", ", and ", " and ", ", while ", "; ", ". ", ", whereas ", ", and also "))
    return f"{one.rstrip('. ')}{between}{other if between == '. ' else tail}"


def _share_names(premise: str, claim: str) -> bool:
    """Whether all names of a claim stand in a premise, so that it may follow by chance."""
    names = NAME.findall(claim)
    return bool(names) and all(name in premise for name in names)
