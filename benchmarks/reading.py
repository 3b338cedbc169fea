"""Reading and chunking: our chunker over parsing and counting alone, our PDF reader over raw text, a longer sheet."""

import zipfile
from collections.abc import Sequence
from pathlib import Path

from markdown_it import MarkdownIt

from benchmarks import Measurement, Setup, Skipped, p50, time_interleaved
from benchmarks.ingest import HANDBOOK
from clew import Engine, drivers
from clew.core.settings import EmbedderConfig, IngestionConfig
from clew.index.chunk import make_chunker
from clew.index.read import read_file
from clew.index.read.text.markdown import parse_markdown_blocks, read_markdown

SIZE = 1_500_000  # characters of markdown
SPREADSHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"


def measure_chunking(setup: Setup) -> Sequence[Measurement]:  # noqa: ARG001
    """Reading and chunking markdown over markdown-it's parse plus the tokeniser's count of the same text."""
    if not HANDBOOK.is_dir():
        raise Skipped(f"needs the sample handbook in {HANDBOOK}")
    pages = [path.read_text(encoding="utf-8") for path in sorted(HANDBOOK.rglob("*.md"))]
    texts = pages * (SIZE // sum(map(len, pages)) + 1)
    embedder = drivers.make_embedder(EmbedderConfig(name="bge-small"))
    cut = make_chunker(IngestionConfig(), embedder.count)
    parser = MarkdownIt("commonmark").enable("table")

    def ours(_: int) -> None:
        for number, text in enumerate(texts):
            cut(read_markdown(f"{text}\n{number}", uri=str(number), name="page.md"))  # each text is new to all caches

    def floor(_: int) -> None:
        parse_markdown_blocks.cache_clear()
        for number, text in enumerate(texts):
            parser.parse(f"{text}\n{number}")
        embedder.count(texts)

    times = time_interleaved(ours, floor, rounds=3)
    ratio = p50(times[0]) / p50(times[1])
    size = sum(map(len, texts)) / 1e6
    return [Measurement(f"chunking {size:.1f} MB of markdown / parsing and counting alone", ratio, "≤ 1.5")]


def measure_pdf(setup: Setup) -> Sequence[Measurement]:
    """Pages per second of our reader over those of pypdfium2's raw text."""
    if setup.data is None or not (setup.data / "multiformat-docs" / "pdf").is_dir():
        raise Skipped("needs the set 'multiformat-docs'; give its folder with --data")
    import pypdfium2

    names = ("2305.03393v1-pg9.pdf", "amt_handbook_sample.pdf", "multi_page.pdf", "normal_4pages.pdf")
    files = [setup.data / "multiformat-docs" / "pdf" / name for name in names]

    def raw(_: int) -> None:
        for file in files:
            document = pypdfium2.PdfDocument(file)
            for page in document:
                page.get_textpage().get_text_bounded()
            document.close()

    ours, floor = time_interleaved(lambda _: [read_file(file, uri=file.name) for file in files], raw, rounds=9)
    return [Measurement("PDF pages per second / raw pypdfium2 text", p50(floor) / p50(ours), "≥ 0.2")]


def measure_sheet(setup: Setup) -> Sequence[Measurement]:
    """The time of adding a sheet of 4,000 rows over one of 2,000."""
    short, long = _write_workbook(setup.work / "short.xlsx", 2000), _write_workbook(setup.work / "long.xlsx", 4000)

    def add(path: Path) -> None:
        with Engine.open(":memory:", embedder="hashed") as engine:
            engine.add(path)

    ours, half = time_interleaved(lambda _: add(long), lambda _: add(short), rounds=5)
    return [Measurement("adding a sheet of 4,000 rows / of 2,000", p50(ours) / p50(half), "≤ 2.2")]


def _write_workbook(path: Path, rows: int) -> Path:
    """A workbook with a header and so many rows of six cells."""
    cells = [["station", "date", "height", "wind", "note", "keeper"]]
    cells += [
        [f"S{n % 90}", f"2026-01-{n % 28 + 1}", str(n), str(n * 7 % 40), f"reading {n}", "Ann"] for n in range(rows)
    ]
    body = "".join(f"<row>{''.join(_make_cell(text) for text in row)}</row>" for row in cells)
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{TYPES}"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/>'
        '<Override PartName="/xl/worksheets/sheet1.xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="a" Type="{OFFICE}/officeDocument" '
        'Target="xl/workbook.xml"/></Relationships>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{RELATIONS}"><Relationship Id="a" '
        f'Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{SPREADSHEET}" xmlns:r="{OFFICE}"><sheets><sheet name="Readings" '
        'sheetId="1" r:id="a"/></sheets></workbook>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SPREADSHEET}"><sheetData>{body}</sheetData></worksheet>',
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in parts.items():
            file.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{text}')
    return path


def _make_cell(text: str) -> str:
    return f'<c t="inlineStr"><is><t>{text}</t></is></c>'
