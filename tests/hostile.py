"""Files made to hurt whoever reads them, and files broken at random: what `add` must survive."""

import io
import random
import zipfile
from collections.abc import Iterator, Mapping

from tests.index.read.test_office import make_docx, make_xlsx

_ENTITIES = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))


def make_pdf(objects: Mapping[int, bytes]) -> bytes:
    """A PDF of these objects; the first is its catalogue."""
    parts = [b"%d 0 obj%s endobj\n" % (number, body) for number, body in objects.items()]
    return b"%PDF-1.4\n" + b"".join(parts) + b"trailer<</Root 1 0 R/Size 9>>\n%%EOF\n"


def make_endless_pdf() -> bytes:
    """A PDF of a few hundred bytes whose only drawing draws itself twice: reading its text never ends."""
    box = b"/BBox[0 0 200 200]/Resources<</XObject<</X 4 0 R>>>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Resources<</XObject<</X 4 0 R>>>>/Contents 5 0 R>>"
    return make_pdf(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
            3: page,
            4: b"<</Type/XObject/Subtype/Form" + box + b"/Length 11>>stream\n/X Do /X Do\nendstream",
            5: b"<</Length 5>>stream\n/X Do\nendstream",
        }
    )


def make_text_pdf(text: str, *, pages: int = 1) -> bytes:
    """A PDF whose pages all show the text."""
    shown = b"BT /F1 12 Tf 20 100 Td (" + text.encode() + b") Tj ET"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 200]/Resources<</Font<</F1 4 0 R>>>>/Contents 5 0 R>>"
    return make_pdf(
        {
            1: b"<</Type/Catalog/Pages 2 0 R>>",
            2: b"<</Type/Pages/Kids[" + b"3 0 R " * pages + b"]/Count %d>>" % pages,
            3: page,
            4: b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
            5: b"<</Length %d>>stream\n%s\nendstream" % (len(shown), shown),
        }
    )


def make_archive(parts: "Mapping[str, str] | Mapping[str, bytes] | Mapping[str, str | bytes]") -> bytes:
    """A packed zip of the parts."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return made.getvalue()


def replace_part(archive: bytes, name: str, part: str | bytes) -> bytes:
    """The archive with one part put in the place of that name."""
    return make_archive(_unpack(archive) | {name: part})


def make_hostile_files(*, scale: int = 1) -> dict[str, bytes]:
    """Files that are small or well packed and ask for much, by name; `scale` makes those larger that can be."""
    paragraph = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
    bomb = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY l0 "lol">{_ENTITIES}]>'
    inner = make_archive({"zeros": bytes(1_000_000 * scale)})
    return {
        "endless.pdf": make_endless_pdf(),
        "pages.pdf": make_text_pdf("Keys.", pages=20_000),
        "loop.pdf": make_pdf({1: b"<</Type/Catalog/Pages 2 0 R>>", 2: b"<</Type/Pages/Kids[2 0 R]/Count 9>>"}),
        "entities.docx": replace_part(make_docx("Keys."), "word/document.xml", bomb + "<d>&l9;</d>"),
        "packed.docx": make_docx(paragraph.format("x" * 60_000_000 * min(scale, 5))),
        "deep.docx": make_docx("<w:p>" * 100_000 + "</w:p>" * 100_000),
        "nested.docx": replace_part(
            make_docx(paragraph.format("Keys.")), "word/media/a.zip", make_archive({"b.zip": inner})
        ),
        "sparse.xlsx": make_xlsx('<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>far</t></is></c></row>'),
        "cells.xlsx": make_xlsx(
            "".join(
                f'<row r="{row}">' + "".join(f'<c r="{c}{row}"><v>{row}</v></c>' for c in "ABCDEFGHIJ") + "</row>"
                for row in range(1, 20_000 * scale)
            )
        ),
        "attributes.html": b"<p " + b" ".join(b"a%d=1" % n for n in range(20_000 * scale)) + b">Keys.</p>",
        "options.html": b"<p>Keys.</p><select>" + b"<option>a" * 20_000 * scale,
        "deep.html": b"<div>" * 100_000 * scale + b"Keys.",
        "spans.html": b"<table><tr>" + b"<td rowspan=1000 colspan=1000>a" * 2_000 * scale + b"</table>",
        "entities.xml": (bomb + "<article>&l9;</article>").encode(),
        "brackets.toml": b"[" * 100_000 * scale,
        "blocks.js": b"a\n\n" * 30_000 * scale,
        "marks.txt": "\u0301".encode() * 40_000 * scale,
        "quotes.md": b"> " * 50_000 * scale,
        "mail.eml": b"From: a@b.c\nContent-Type: text/html\n\n" + b"<b>" * 100_000 * scale,
        "cells.csv": b"a," * 200_000 * scale,
        "deep.json": b"[" * 200_000 * scale,
        "deep.py": b"(" * 200_000 * scale,
        "legacy.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\xff" * 2_000,
        "groups.rtf": rb"{\rtf1 " + b"{" * 100_000 * scale,
    }


def mutate_files(samples: Mapping[str, bytes], count: int, *, seed: int) -> Iterator[tuple[str, bytes]]:
    """So many broken copies of the samples: bytes flipped, cut out, repeated, put in, inside archives too."""
    chance = random.Random(seed)
    names = sorted(samples)
    for number in range(count):
        name = names[number % len(names)]
        data = samples[name]
        if data.startswith(b"PK") and chance.random() < 0.7:
            data = _mutate_entry(data, chance)
        else:
            data = _mutate_bytes(data, chance)
        yield f"{number:04}-{name}", data


def _unpack(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _mutate_entry(data: bytes, chance: random.Random) -> bytes:
    parts = _unpack(data)
    chosen = chance.choice(sorted(parts))
    return make_archive(parts | {chosen: _mutate_bytes(bytes(parts[chosen]), chance)})


def _mutate_bytes(data: bytes, chance: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(chance.choice((1, 2, 5, 20))):
        at = chance.randrange(len(made) + 1)
        size = min(chance.choice((1, 4, 64, 1000)), len(made) - at)
        match chance.randrange(5):
            case 0:
                made[at : at + size] = chance.randbytes(size)
            case 1:
                del made[at : at + size]
            case 2:
                made[at:at] = made[at : at + size] * chance.choice((2, 50, 2000))
            case 3:
                made[at:at] = chance.choice((b"\x00", b"<", b"((", b"/Kids[2 0 R]", b"9" * 12, b"&l9;", b"\xff\xfe"))
            case _:
                other = chance.randrange(len(made) + 1)
                made[at:at] = made[other : other + size]
        del made[2_000_000:]
    return bytes(made)
