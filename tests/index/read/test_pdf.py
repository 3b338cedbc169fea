"""PDF: structure where it can be trusted, the raw text elsewhere, and the page of everything."""

from collections.abc import Sequence

import numpy as np
import pytest

from clew.core.errors import SourceError
from clew.core.types import Document
from clew.index.read.blocks import SourceBlock
from clew.index.read.pdf import document as pdf
from clew.index.read.pdf import ocr
from clew.index.read.pdf.document import drop_repeated_headers, join_split_words, order_by_raw_lines, split_off_headings
from clew.index.read.pdf.lines import (
    find_hyphen_joins,
    find_running_lines,
    match_running_lines,
    parse_pdf_date,
    parse_raw_page,
    parse_structured_page,
    remove_edge_lines,
)
from clew.index.read.pdf.rulings import place_ruled_tables

Line = tuple[int, str]  # size of the type, words
PICTURE = b"q 200 0 0 100 50 50 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \x00 EI Q"
BODY = ["The keys of the vault are rotated every week by the team on duty.", "Whoever is on duty asks Ada first."]
LEFT = [
    "The keys of the vault are",
    "rotated every week by the",
    "team on duty, and whoever",
    "is on duty asks Ada first.",
]
RIGHT = [
    "Winches are oiled on every",
    "second day of the month, or",
    "whenever a crew comes back",
    "from the outer harbour.",
]


def make_pdf(
    pages: Sequence[Sequence[Line]],
    *,
    pictures: bool = False,
    locked: bool = False,
    title: str = "",
    drawing: bytes = b"",
) -> bytes:
    """A PDF with the lines on its pages, from the top down, and below them a drawing on each."""
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>"
        % (b" ".join(b"%d 0 R" % (5 + 2 * n) for n in range(len(pages))), len(pages)),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Title (%s) >>" % title.encode(),
    ]
    for number, lines in enumerate(pages):
        drawn = [PICTURE] if pictures and not lines else []
        down = 780
        for size, words in lines:
            drawn.append(b"BT /F1 %d Tf 50 %d Td (%s) Tj ET" % (size, down, words.encode("latin-1")))
            down -= size + 6
        stream = b"\n".join([*drawn, drawing])
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >> "
            b"/Contents %d 0 R >>" % (6 + 2 * number)
        )
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
    if locked:
        mark = b"<" + b"41" * 32 + b">"
        objects.append(b"<< /Filter /Standard /V 1 /R 2 /O %s /U %s /P -4 >>" % (mark, mark))
    data = b"%PDF-1.4\n"
    places = []
    for number, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    lock = b"/Encrypt %d 0 R /ID [<41> <41>]" % len(objects) if locked else b""
    return (
        data + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R /Info 4 0 R %s >>\n"
        b"startxref\n%d\n%%%%EOF"
        % (
            len(objects) + 1,
            table,
            len(objects) + 1,
            lock,
            len(data),
        )
    )


def read_pdf(data: bytes) -> Document:
    return pdf.read_pdf(data, uri="a.pdf", name="the-vault.pdf")


def test_headings_and_pages_are_kept() -> None:
    pages = [
        [(24, "Vault"), *((10, line) for line in BODY * 3)],
        [(10, f"The second page says {words}.") for words in ("this", "that", "more")],
        [(24, "Locks"), *((10, f"Lock {words} of the door is old.") for words in ("one", "two", "six"))],
    ]
    found = read_pdf(make_pdf(pages, title="The vault handbook"))
    assert found.title == "The vault handbook"
    assert found.meta["pages"] == 3
    assert found.meta["extraction"] == "structured"
    assert [(s.page, found.heading_path(at)) for at, s in enumerate(found.sections)] == [
        (1, ("Vault",)),
        (2, ("Vault",)),
        (3, ("Locks",)),
    ]
    assert "rotated every week" in found.text


def test_the_name_is_the_title_where_the_file_gives_none_of_use() -> None:
    assert read_pdf(make_pdf([[(10, BODY[0])]], title="draft.docx")).title == "The vault"


def test_a_page_whose_structure_lacks_words_is_read_raw(monkeypatch: pytest.MonkeyPatch) -> None:
    marked = pdf._StructuredPages({0: f"# {BODY[0]}\n\n{BODY[1]}", 1: "# The keys"})
    monkeypatch.setattr(pdf, "_extract_structured_pages", lambda _data, **_options: marked)
    found = read_pdf(make_pdf([[(10, line) for line in BODY], [(10, line) for line in BODY]]))
    assert found.meta["extraction"] == "mixed"
    assert found.meta["raw_pages"] == [2]
    assert found.text == f"# {BODY[0]}\n\n{BODY[1]}\n\n{BODY[0]}\n{BODY[1]}"


def test_words_must_agree_and_where_columns_are_so_must_their_order() -> None:
    raw = " ".join(f"w{n}" for n in range(100))
    assert pdf.has_same_words(raw, " ".join(f"w{n}" for n in range(95)))
    assert not pdf.has_same_words(raw, " ".join(f"w{n}" for n in range(94)))
    across = " ".join(f"w{n // 2 + 50 * (n % 2)}" for n in range(100))
    assert pdf.has_same_words(raw, across)
    assert not pdf.has_same_words(raw, across, check_order=True)


def test_running_lines_stay_where_they_come_first_and_only_there() -> None:
    pages = [[(9, "Handbook of keys"), (10, f"{BODY[0]} Part {n}."), (9, f"Page {n} of 4")] for n in range(1, 5)]
    text = read_pdf(make_pdf(pages)).text
    assert text.count("Handbook of keys") == 1
    assert text.count(" of 4") == 1
    assert all(f"Part {n}." in text for n in range(1, 5))


def test_lines_that_repeat_inside_pages_are_no_running_lines() -> None:
    texts = [f"head\nsecond {n}x\nsame words\nthird {n}y\nfoot" for n in "abcd"]
    kept = find_running_lines(texts)
    assert match_running_lines(texts[0], kept, 0) == []
    assert match_running_lines(texts[1], kept, 1) == ["head", "foot"]
    assert remove_edge_lines(texts[1], ["head", "foot"]) == "second bx\nsame words\nthird by"
    assert remove_edge_lines("# **head** text **12 foot**\n", ["12 foot", "head"]) == "text"
    assert remove_edge_lines("heading and afoot", ["head", "foot"]) == "heading and afoot"


def test_words_broken_at_line_ends_are_joined_as_they_are_written_elsewhere() -> None:
    texts = ["The well-known rotation. We rota-\r\nted the well-\r\nknown key of Ada-\r\nBob by uni\ufffeversal law."]
    breaks = find_hyphen_joins(texts)
    assert (
        breaks.join_hyphenated_words(texts[0])
        == "The well-known rotation. We rotated the well-known key of Ada-Bob by universal law."
    )
    assert breaks.join_hyphenated_words("# We rota- ted it - twice") == "# We rotated it - twice"


def test_the_forms_of_structured_text() -> None:
    markdown = (
        "# Title\ntext\nmore\n- one\n  - two\n1. three\n\n|a|b|\n|---|---|\n|1|2|\n```py\nx = 1\n```\n## • bullet"
    )
    found = [(block.kind, block.text, block.level) for block in parse_structured_page(markdown, page=1)]
    assert found == [
        ("heading", "Title", 1),
        ("paragraph", "text\nmore", 0),
        ("list_item", "one", 0),
        ("list_item", "two", 1),
        ("list_item", "three", 0),
        ("table", "| a | b |\n| - | - |\n| 1 | 2 |", 0),
        ("code", "x = 1", 0),
        ("list_item", "bullet", 0),
    ]


def test_raw_text_is_cut_into_paragraphs_where_a_short_line_ends_a_sentence() -> None:
    text = f"{BODY[0]}\nShort end.\n{BODY[0]}\n• item\n• other"
    assert [block.kind for block in parse_raw_page(text, page=1)] == [
        "paragraph",
        "paragraph",
        "list_item",
        "list_item",
    ]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (make_pdf([[(10, BODY[0])]], locked=True), "password-protected"),
        (make_pdf([]), "no pages"),
        (make_pdf([[(10, BODY[0])]])[:200], "broken"),
        (b"hello", "broken"),
        (make_pdf([[]]), "no text"),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(SourceError, match=reason):
        read_pdf(data)


def test_a_scan_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "is_ocr_installed", lambda: False)
    monkeypatch.setattr(ocr, "is_ocr_installed", lambda: False)
    with pytest.raises(SourceError, match=r"scanned.*clew\[ocr\]"):
        read_pdf(make_pdf([[]], pictures=True))
    with pytest.raises(SourceError, match=r"clew\[ocr\]"):
        ocr.read_image(b"\x89PNG", uri="a.png", name="a.png")
    found = read_pdf(make_pdf([[], [(10, line) for line in BODY]], pictures=True))
    assert found.meta["unread_pages"] == [1]
    assert [section.page for section in found.sections] == [2]


@pytest.mark.parametrize("shape", [(120, 900), (4000, 300), (3508, 2480), (3000, 3000), (600, 800)])
def test_a_picture_is_recognised_at_a_size_that_fits_in_the_memory_of_a_reader(shape: tuple[int, int]) -> None:
    pytest.importorskip("cv2")
    fitted = ocr._fit_picture(np.full((*shape, 3), 255, np.uint8))
    high, wide = fitted.shape[:2]
    assert high * wide <= ocr.SEEN_PIXELS * 1.01
    assert max(high, wide) <= ocr.MAX_RATIO * (min(high, wide) + 1)
    assert fitted.shape[:2] == shape or shape != (600, 800)


@pytest.mark.slow
def test_scanned_words_are_recognised_whichever_way_the_page_lies() -> None:
    cv2 = pytest.importorskip("cv2")
    pytest.importorskip("rapidocr")
    import numpy as np

    page = np.full((500, 900, 3), 255, dtype=np.uint8)
    for at, words in enumerate(("The keys are rotated weekly", "Ask Ada before you begin", "Never on a Friday")):
        cv2.putText(page, words, (40, 80 + 60 * at), cv2.FONT_HERSHEY_SIMPLEX, 1.2, (0, 0, 0), 2)
    expected = ["The keys are rotated weekly", "Ask Ada before you begin", "Never on a Friday"]
    for turns in (0, 3):
        turned = np.ascontiguousarray(np.rot90(page, turns))
        blocks = ocr.recognise_text(turned, uri="a.png", page=1)
        assert [line for block in blocks for line in block.text.splitlines()] == expected


def list_headings(pages: Sequence[Sequence[Line]], *, title: str = "") -> list[str]:
    document = pdf.read_pdf(make_pdf(pages, title=title), uri="a.pdf", name="a.pdf")
    return [section.label for section in document.sections if section.label]


def test_prose_in_columns_is_no_table() -> None:
    rows = "\n".join(f"| {a} | {b} |" for a, b in zip(LEFT, RIGHT, strict=True))
    found = list(parse_structured_page(f"{rows}\n", page=1))
    assert [(block.kind, block.text) for block in found] == [
        *(("paragraph", "\n".join(LEFT)), ("paragraph", "\n".join(RIGHT)))
    ]
    table = "| Item | Cost of it |\n|---|---|\n| Safe | 10 |\n| Key | 2 |\n| Lock | 3 |\n"
    assert [block.kind for block in parse_structured_page(table, page=1)] == ["table"]


def test_the_date_of_the_metadata() -> None:
    assert parse_pdf_date("D:20240131120000+01'00'") == "2024-01-31T12:00:00+01:00"
    assert parse_pdf_date("D:2024") == "2024-01-01T00:00:00+00:00"
    assert parse_pdf_date("20240230") == parse_pdf_date("yesterday") == ""
    dated = make_pdf([[(18, "Keys"), (11, BODY[0])]], title="Keys) /ModDate (D:20240131120000Z")
    assert pdf.read_pdf(dated, uri="a.pdf", name="a.pdf").meta["date"] == "2024-01-31T12:00:00+00:00"


def test_a_short_page_is_not_read_across_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    across = "\n".join(f"{a} {b}" for a, b in zip(LEFT, RIGHT, strict=True))
    marked = f"# Handbook\n\n## 2 Winches 1 Keys\n\n{across}\n\n## Prices\n\n|Rope|12 EUR|\n|---|---|\n|Oil|3 EUR|"
    monkeypatch.setattr(pdf, "_extract_structured_pages", lambda *_, **__: pdf._StructuredPages({0: marked}))
    lines = ["Handbook", "1 Keys", *LEFT, "2 Winches", *RIGHT, "Prices", "Rope 12 EUR", "Oil 3 EUR"]
    found = read_pdf(make_pdf([[(10, line) for line in lines]]))
    assert found.text == "\n\n".join(
        [
            *("# Handbook", "## 1 Keys", "\n".join(LEFT), "## 2 Winches", "\n".join(RIGHT)),
            *("## Prices", "| Rope | 12 EUR |\n| - | - |\n| Oil | 3 EUR |"),
        ]
    )
    assert found.meta["extraction"] == "reordered"


def test_a_table_torn_out_of_columns_is_read_as_its_lines() -> None:
    text = "\n".join(["Keys of the vault", *LEFT, *RIGHT])
    torn = SourceBlock("table", f"| {LEFT[0]} | {RIGHT[0]} |\n| - | - |\n| {LEFT[1]} | {RIGHT[1]} |", page=1)
    heading = SourceBlock("heading", "Keys of the vault", level=1, page=1)
    assert [(block.kind, block.text) for block in order_by_raw_lines([heading, torn], text, page=1)] == [
        ("heading", "Keys of the vault"),
        ("paragraph", "\n".join([*LEFT, *RIGHT])),
    ]


def test_a_box_to_tick_begins_an_item_and_is_no_heading() -> None:
    markdown = "# \ufffd\ufffd Don't know\n\n# \uf0a8 Yes, weekly \uf0a8 Yes, daily\n\n\x84 Never at all\n## \x84 \n"
    assert [(block.kind, block.text) for block in parse_structured_page(markdown, page=1)] == [
        ("list_item", "Don't know"),
        ("list_item", "Yes, weekly"),
        ("list_item", "Yes, daily"),
        ("list_item", "Never at all"),
        ("list_item", ""),
    ]
    assert [block.kind for block in parse_raw_page("\x84 Yes\n\x84 No", page=1)] == ["list_item", "list_item"]


def draw_table(rows: Sequence[Sequence[str]], *, edges: Sequence[int], top: int, framed: bool) -> bytes:
    """A table between these edges, with lines around its cells or frames drawn for each."""
    bottom = top - 20 * len(rows)
    drawn = []
    for number, row in enumerate(rows):
        down = top - 20 * number
        for at, cell in enumerate(row):
            drawn.append(b"BT /F1 10 Tf %d %d Td (%s) Tj ET" % (edges[at] + 4, down - 14, cell.encode()))
            if framed:
                drawn.append(b"%d %d %d 18 re S" % (edges[at], down - 19, edges[at + 1] - edges[at] - 2))
    if not framed:
        drawn += [b"%d %d m %d %d l S" % (x, bottom, x, top) for x in edges]
        drawn += [
            b"%d %d m %d %d l S" % (edges[0], top - 20 * n, edges[-1], top - 20 * n) for n in range(len(rows) + 1)
        ]
    return b"\n".join(drawn)


@pytest.mark.parametrize("framed", [False, True])
def test_the_lines_around_cells_make_a_table(framed: bool) -> None:
    rows = [["Length", "Summer", "Winter"], ["under 8 m", "14 EUR", "9 EUR"], ["8 to 12 m", "22 EUR", "15 EUR"]]
    drawing = draw_table(rows, edges=[50, 100, 146, 190], top=700, framed=framed)
    lines = [(20, "Prices of the harbour"), *((10, line) for line in BODY)]
    found = read_pdf(make_pdf([lines], drawing=drawing))
    assert found.text.endswith(
        "| Length | Summer | Winter |\n| - | - | - |\n| under 8 m | 14 EUR | 9 EUR |\n| 8 to 12 m | 22 EUR | 15 EUR |"
    )
    assert found.text.count("Summer") == 1
    assert found.text.startswith("# Prices of the harbour\n\n")


def test_columns_of_text_in_frames_are_no_table() -> None:
    lines = zip(LEFT * 6, RIGHT * 6, strict=True)
    frames = b"40 100 200 640 re S 240 100 200 640 re S 40 90 400 10 re S"
    drawn = [
        b"BT /F1 10 Tf %d %d Td (%s) Tj ET" % (x, 720 - 15 * n, words.encode())
        for n, pair in enumerate(lines)
        for x, words in zip((50, 250), pair, strict=True)
    ]
    assert "|" not in read_pdf(make_pdf([[(20, "Keys")]], drawing=b"\n".join([*drawn, frames]))).text


def test_a_table_goes_where_its_words_are_and_nowhere_else() -> None:
    rows = [["Rope", "12"], ["Oil", "3"]]
    table = "| Rope | 12 |\n| - | - |\n| Oil | 3 |"
    before = SourceBlock("paragraph", "Prices of today:\nRope 12", page=1)
    after = SourceBlock("paragraph", "Oil 3\nAsk Ada.", page=1)
    assert [(block.kind, block.text) for block in place_ruled_tables([before, after], [rows], page=1)] == [
        *(("paragraph", "Prices of today:"), ("table", table), ("paragraph", "Ask Ada."))
    ]
    other = [before, SourceBlock("paragraph", "Oil 4\nAsk Ada.", page=1)]
    assert place_ruled_tables(other, [rows], page=1) == other
    finer = [SourceBlock("table", "| Rope | 1 | 2 |\n| - | - | - |\n| Oil | 3 | |", page=1)]
    assert place_ruled_tables(finer, [[["Rope", "1 2"], ["Oil", "3"]]], page=1) == finer


def test_the_line_that_opens_a_document_is_its_title_though_chapters_are_larger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read(markdown: str) -> Document:
        marked = pdf._StructuredPages({0: markdown})
        monkeypatch.setattr(pdf, "_extract_structured_pages", lambda *_, **__: marked)
        return read_pdf(make_pdf([[(10, line.strip("# ")) for line in markdown.split("\n\n")]]))

    chapters = f"# Early years\n\n{BODY[0]}\n\n## Detail\n\n{BODY[0]}\n\n# Later years\n\n{BODY[1]}"
    found = read(f"## The history of keys\n\n{BODY[1]}\n\n{chapters}")
    assert found.title == "The history of keys"
    assert [found.heading_path(at)[1:] for at in range(len(found.sections))] == [
        *((), ("Early years",), ("Early years", "Detail"), ("Later years",))
    ]
    assert read(f"## Abstract\n\n{BODY[1]}\n\n{chapters}").title == "Early years"
    assert read(f"## Journal of locks\n\n{chapters}").title == "Early years"


def test_the_raw_lines_repair_words_and_headings() -> None:
    raw = "They perform well, the best of models; go in to it, into it."
    torn = "They p erform well, the b est of mo dels; go in to it, in to it."
    assert join_split_words(torn, raw) == raw.replace("into", "in to")
    lines = ["5.1 Hyper parameters", "We have chosen the keys of the vault for it.", "2.5 metres of rope", "lie there."]
    run_in = [SourceBlock("paragraph", " ".join(lines[at : at + 2]), page=1) for at in (0, 2)]
    assert [(block.kind, block.text, block.level) for block in split_off_headings(run_in, lines, 44)] == [
        ("heading", "5.1 Hyper parameters", 2),
        ("paragraph", "We have chosen the keys of the vault for it.", 0),
        ("paragraph", "2.5 metres of rope lie there.", 0),
    ]
    table = SourceBlock("table", "| layers | time (secs) |\n| - | - |\n| 6 | 2.7 |", page=1)
    again, other = (
        SourceBlock("paragraph", text, page=1) for text in ("layers time (secs)", "layers time (secs) more")
    )
    assert list(drop_repeated_headers([table, again, other])) == [table, other]


def test_split_words_of_a_page_are_made_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    marked = pdf._StructuredPages({0: f"Keys {BODY[0]}".replace("rotated", "ro tated")})
    monkeypatch.setattr(pdf, "_extract_structured_pages", lambda *_, **__: marked)
    assert read_pdf(make_pdf([[(10, line) for line in ("Keys", BODY[0])]])).text == f"Keys {BODY[0]}"
