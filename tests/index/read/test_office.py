"""Office formats: DoclingDocuments become blocks, and workbooks of any size are read."""

from typing import Any

import pytest

from clew.index.read.blocks import assemble_text_and_sections
from clew.index.read.office import sheets
from clew.index.read.office.docling import parse_docling_document, read_office, read_xml
from tests.index.read.test_guard import make_zip

WORD = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def make_relations(**targets: tuple[str, str]) -> str:
    found = "".join(
        f'<Relationship Id="{key}" Type="{RELATION}/{kind}" Target="{target}"/>'
        for key, (kind, target) in targets.items()
    )
    return f'<Relationships xmlns="{PACKAGE}/relationships">{found}</Relationships>'


def make_content_types(**parts: str) -> str:
    found = "".join(
        f'<Override PartName="{name}" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/>'
        for kind, name in parts.items()
    ).replace("__", ".")
    return (
        f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/>'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f"{found}</Types>"
    )


def make_docx(body: str) -> bytes:
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="Heading{n}"><w:name w:val="heading {n}"/></w:style>' for n in (1, 2)
    )
    return make_zip(
        {
            "[Content_Types].xml": make_content_types(wordprocessingml__document__main="/word/document.xml"),
            "_rels/.rels": make_relations(a=("officeDocument", "word/document.xml")),
            "word/_rels/document.xml.rels": make_relations(a=("styles", "styles.xml")),
            "word/styles.xml": f"<w:styles {WORD}>{styles}</w:styles>",
            "word/document.xml": f"<w:document {WORD}><w:body>{body}</w:body></w:document>",
        }
    )


def make_paragraph(words: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{words}</w:t></w:r></w:p>"


def make_xlsx(rows: str, *, name: str = "Ledger", **parts: str) -> bytes:
    workbook = f'<sheets><sheet name="{name}" sheetId="1" r:id="a"/></sheets>'
    return make_zip(
        {
            "[Content_Types].xml": make_content_types(
                spreadsheetml__sheet__main="/xl/workbook.xml", spreadsheetml__worksheet="/xl/worksheets/sheet1.xml"
            ),
            "_rels/.rels": make_relations(a=("officeDocument", "xl/workbook.xml")),
            "xl/_rels/workbook.xml.rels": make_relations(a=("worksheet", "worksheets/sheet1.xml")),
            "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{RELATION}">{workbook}</workbook>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
            **{f"xl/{key}.xml": part for key, part in parts.items()},
        }
    )


def make_row(number: int, *cells: str) -> str:
    texts = "".join(
        f'<c r="{chr(65 + at)}{number}" t="inlineStr"><is><t>{cell}</t></is></c>' for at, cell in enumerate(cells)
    )
    return f'<row r="{number}">{texts}</row>'


def make_docling(**parts: Any) -> dict[str, Any]:
    """A DoclingDocument from items that name their children."""
    found: dict[str, Any] = {"texts": [], "groups": [], "tables": [], "pictures": [], **parts}
    for kind in ("texts", "groups", "tables", "pictures"):
        for at, item in enumerate(found[kind]):
            item |= {"self_ref": f"#/{kind}/{at}", "children": [{"$ref": f"#/{child}"} for child in item.get("of", ())]}
            item.setdefault("content_layer", "body")
    found["body"] = {"children": [{"$ref": f"#/{child}"} for child in parts["body"]]}
    return found


def test_a_word_document() -> None:
    body = make_paragraph("Vault", "Heading1") + make_paragraph("Keys rotate.") + make_paragraph("Steps", "Heading2")
    table = "".join(
        f"<w:tr>{''.join(f'<w:tc>{make_paragraph(cell)}</w:tc>' for cell in cells)}</w:tr>"
        for cells in (("a", "b"), ("1", "2"))
    )
    found = read_office(make_docx(f"{body}<w:tbl>{table}</w:tbl>"), uri="a.docx", name="a.docx")
    assert found.text.replace("## Vault", "# Vault").replace("### Steps", "## Steps") == (
        "# Vault\n\nKeys rotate.\n\n## Steps\n\n| a | b |\n| - | - |\n| 1 | 2 |"
    )
    assert [found.heading_path(at) for at in range(len(found.sections))] == [("Vault",), ("Vault", "Steps")]
    assert found.meta == {"format": "markdown", "source_format": "docx"}


def test_a_workbook_names_its_sheets_and_repeats_headers() -> None:
    data = make_xlsx(make_row(1, "name", "value") + "".join(make_row(n, f"n{n}", f"v{n}") for n in range(2, 400)))
    found = read_office(data, uri="a.xlsx", name="the-books.xlsx")
    assert found.title == "The books"
    assert [section.label for section in found.sections] == ["Ledger"]
    assert found.text.count("| name | value |") > 5
    assert "| n399 | v399 |" in found.text


def test_a_vast_workbook_is_streamed_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheets, "MAX_DOCLING_CELLS", 20)
    rows = (
        '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>when</t></is></c></row>'
        '<row r="2"><c r="A2" t="b"><v>1</v></c><c r="B2"><v>2.5</v></c><c r="C2" s="1"><v>45413</v></c></row>'
        '<row r="9"><c r="C9" s="1"><v>0.5</v></c></row>'
    )
    strings = f'<sst xmlns="{SHEET}"><si><r><t>is </t></r><r><t>open</t></r><rPh><t>no</t></rPh></si></sst>'
    styles = f'<styleSheet xmlns="{SHEET}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>'
    found = read_office(make_xlsx(rows, sharedStrings=strings, styles=styles), uri="a.xlsx", name="a.xlsx")
    assert found.meta["extraction"] == "streamed"
    assert found.text == (
        "# Ledger\n\n| is open |  | when |\n| - | - | - |\n| TRUE | 2.5 | 2024-05-01 |\n|  |  | 12:00:00 |"
    )


def test_a_sheet_is_vast_by_its_rectangle_and_empty_cells_do_not_count() -> None:
    corner = '<row r="1"><c r="A1"><v>1</v></c></row><row r="900000"><c r="XFD900000"{}</row>'
    assert sheets.is_large_workbook(make_xlsx(corner.format("><v>1</v></c>")), uri="a.xlsx")
    assert not sheets.is_large_workbook(make_xlsx(corner.format(' s="1"/>')), uri="a.xlsx")
    found = read_office(make_xlsx(corner.format("><v>corner</v></c>")), uri="a.xlsx", name="a.xlsx")
    assert "corner" in found.text


def test_a_workbook_of_ten_thousand_columns() -> None:
    names = ["".join(chr(65 + (n // 26**k) % 26) for k in (2, 1, 0)) for n in range(10_000)]
    cells = [f'<c r="{{}}{{}}" t="inlineStr"><is><t>{name}</t></is></c>' for name in names]
    places = [_to_letters(n) for n in range(1, 10_001)]
    rows = "".join(
        f'<row r="{r}">{"".join(c.format(p, r) for c, p in zip(cells, places, strict=True))}</row>' for r in (1, 2)
    )
    found = read_office(make_xlsx(rows), uri="a.xlsx", name="a.xlsx")
    assert names[9_999] in found.text
    assert max(map(len, found.text.splitlines())) < 1_000


def _to_letters(number: int) -> str:
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def test_slides_have_pages_notes_and_a_heading_each() -> None:
    found = make_docling(
        body=["groups/0", "groups/1"],
        pages={"1": {}, "2": {}},
        groups=[
            {"label": "chapter", "name": "slide-0", "of": ["texts/0", "texts/1"]},
            {"label": "chapter", "name": "slide-1", "of": ["texts/2", "groups/2"]},
            {"label": "comment_section", "name": "c", "of": ["texts/3"]},
        ],
        texts=[
            {"label": "title", "text": "Keys", "prov": [{"page_no": 1}]},
            {"label": "text", "text": "say it slowly", "content_layer": "notes"},
            {"label": "paragraph", "text": "no title here", "prov": [{"page_no": 2}]},
            {"label": "text", "text": "[author: Ada]: why?", "content_layer": "notes"},
        ],
    )
    text, sections = assemble_text_and_sections(parse_docling_document(found, slides=True).blocks)
    assert text == "# Keys\n\nNotes: say it slowly\n\n# Slide 2\n\nno title here\n\n\\[author: Ada]: why?"
    assert [section.page for section in sections] == [1, 2]


def test_lists_inline_runs_and_what_is_not_part_of_the_text() -> None:
    found = make_docling(
        body=["texts/0", "groups/0", "groups/2", "texts/5"],
        groups=[
            {"label": "list", "of": ["texts/1", "texts/2"]},
            {"label": "list", "of": ["texts/3"]},
            {"label": "inline", "of": ["texts/4", "texts/6", "texts/7"]},
        ],
        texts=[
            {"label": "page_header", "text": "confidential"},
            {"label": "list_item", "text": "first", "enumerated": True, "marker": "1."},
            {"label": "list_item", "text": "second", "enumerated": True, "marker": "2.", "of": ["groups/1"]},
            {"label": "list_item", "text": "inner", "enumerated": False, "marker": "-"},
            {"label": "text", "text": "run"},
            {"label": "text", "text": "hidden", "content_layer": "furniture"},
            {"label": "code", "text": "vault"},
            {"label": "text", "text": ", now"},
        ],
    )
    assert (
        assemble_text_and_sections(parse_docling_document(found).blocks)[0]
        == "1. first\n2. second\n   - inner\n\nrun `vault`, now"
    )


def test_tables_with_captions_rich_cells_and_charts() -> None:
    def make_cell(text: str, at: tuple[int, int], **more: Any) -> dict[str, Any]:
        return {"text": text, "start_row_offset_idx": at[0], "start_col_offset_idx": at[1], **more}

    grid = [[make_cell("a", (0, 0)), make_cell("b", (0, 1))], [make_cell("1", (1, 0)), make_cell("", (1, 1))]]
    rich = [make_cell("", (1, 1), ref={"$ref": "#/groups/0"})]
    chart = {"grid": [[make_cell("x", (0, 0)), make_cell("y", (0, 1))]]}
    found = make_docling(
        body=["texts/0", "tables/0", "pictures/0"],
        groups=[{"label": "unspecified", "of": ["texts/1", "texts/2"]}],
        texts=[
            {"label": "caption", "text": "Costs"},
            {"label": "text", "text": "two"},
            {"label": "list_item", "text": "three"},
        ],
        tables=[
            {
                "label": "table",
                "captions": [{"$ref": "#/texts/0"}],
                "data": {"grid": grid, "table_cells": rich},
                "of": ["groups/0"],
            }
        ],
        pictures=[
            {
                "label": "picture",
                "meta": {
                    "classification": {"predictions": [{"class_name": "bar_chart"}]},
                    "tabular_chart": {"chart_data": chart},
                },
            }
        ],
    )
    assert assemble_text_and_sections(parse_docling_document(found).blocks)[0] == (
        "Costs\n\n| a | b |\n| - | - |\n| 1 | two three |\n\nBar chart\n\n| x | y |\n| - | - |"
    )


def test_asciidoc_and_articles() -> None:
    found = read_office(b"= Vault\n\nKeys.\n\n== Steps\n\n* one\n", uri="a.adoc", name="a.adoc")
    assert [section.label for section in found.sections] == ["Vault", "Steps"]
    article = (
        b"<article><front><article-meta><title-group><article-title>Keys</article-title></title-group>"
        b"</article-meta></front><body><sec><title>Intro</title><p>Words.</p></sec></body></article>"
    )
    assert "Words." in read_xml(article, uri="a.xml", name="a.xml").text
    other = read_xml(b"<project/>", uri="pom.xml", name="pom.xml")
    assert (other.text, other.meta["format"]) == ("<project/>", "code")


def test_other_encodings_are_read_without_a_word_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    article = (
        '<?xml version="1.0" encoding="{}"?><article><front><article-meta><title-group><article-title>Grüße'
        "</article-title></title-group></article-meta></front><body><p>Köln</p></body></article>"
    )
    for name, data in (
        ("a.adoc", "= Grüße\n\nKöln\n".encode("cp1252")),
        ("b.nxml", article.format("iso-8859-1").encode("cp1252")),
        ("c.nxml", article.format("utf-16").encode("utf-16")),
    ):
        document = read_office(data, uri=name, name=name)
        assert "Grüße" in document.text
        assert "Köln" in document.text
    assert capfd.readouterr() == ("", "")
