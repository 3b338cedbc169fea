"""HTML: the main content, its structure, and nothing of the chrome around it."""

import sys

import pytest

from clew.core.errors import DriverMissing, SourceError
from clew.core.types import Document
from clew.index.read.load import decode_with_fallbacks
from clew.index.read.office.mail import read_mail
from clew.index.read.office.recordings import read_captions
from clew.index.read.office.sheets import read_delimited
from clew.index.read.web.html import parse_html, read_html


def read_page(page: str | bytes) -> Document:
    return read_html(page if isinstance(page, bytes) else page.encode(), uri="a.html", name="a.html")


def test_chrome_is_left_out_and_the_structure_is_kept() -> None:
    found = read_page(
        """<html lang="en"><head><title>Vault &amp; keys</title><meta name="description" content="How keys rotate">
        <meta property="article:published_time" content="2024-05-01"><style>p{}</style></head><body>
        <header><a href="/">Home</a></header><nav>Menu</nav><script>evil()</script>
        <main><h1>Vault</h1><p>Keys <b>rotate</b> <a href="/x">weekly</a>.</p><div hidden>secret</div>
        <p style="display: none">secret</p><p aria-hidden="true">secret</p>
        <h2>Steps</h2><ol start="3"><li>first<ul><li>inner</li></ul></li><li>second</li></ol>
        <pre><code class="language-sh">vault rotate\n  --now</code></pre>
        <blockquote><p>Ask Ada.</p></blockquote>
        <figure><img src="a.png" alt="A diagram"><figcaption>The flow</figcaption></figure></main>
        <footer>Imprint</footer></body></html>"""
    )
    assert found.text == (
        "# Vault\n\nKeys rotate weekly.\n\n## Steps\n\n3. first\n   - inner\n4. second\n\n"
        "```sh\nvault rotate\n  --now\n```\n\n> Ask Ada.\n\nA diagram\n\nThe flow"
    )
    assert found.title == "Vault & keys"
    assert [found.heading_path(at) for at in range(len(found.sections))] == [("Vault",), ("Vault", "Steps")]
    assert found.meta == {
        "format": "markdown",
        "source_format": "html",
        "description": "How keys rotate",
        "language": "en",
        "date": "2024-05-01",
    }


def test_cells_that_span_are_repeated_and_inner_tables_flattened() -> None:
    found = read_page(
        """<table><caption>Costs</caption><tr><th>Region</th><th colspan="2">Cost</th></tr>
        <tr><td rowspan="2">North</td><td>1</td><td>2</td></tr>
        <tr><td>3</td><td><table><tr><td>x</td><td>y</td></tr></table></td></tr></table>"""
    )
    assert found.text == ("Costs\n\n| Region | Cost | Cost |\n| - | - | - |\n| North | 1 | 2 |\n| North | 3 | x y |")


def test_a_table_for_layout_is_read_as_what_is_in_it() -> None:
    found = read_page('<table role="presentation"><tr><td><h1>T</h1></td><td><p>words</p></td></tr></table>')
    assert found.text == "# T\n\nwords"


def test_permalinks_and_links_to_the_pages_around_are_left_out() -> None:
    found = read_page(
        """<div class="nav-panel"><p>Next: <a href="b.html" accesskey="n" rel="next">Locks</a>, Up:
        <a href="." rel="up">Top</a> &nbsp; [<a href="i.html" rel="index">Index</a>]</p></div>
        <div class="header"><p>Previous: <a href="c.html" rel="prev">Doors</a></p></div>
        <h1>Keys<a class="headerlink" href="#keys" title="Permalink to this heading">¶</a></h1>
        <p>Keys rotate, see <a href="#2">§ 2</a>.</p><h2><a href="#why">#</a> Why</h2>
        <div class="header"><p>Ada asks.</p></div>
        <dl><dt>vault(key)<a class="headerlink" href="#vault">¶</a></dt><dd>Opens it.</dd></dl>"""
    )
    assert found.text == "# Keys\n\nKeys rotate, see § 2.\n\n## Why\n\nAda asks.\n\n- vault(key)\n  - Opens it."
    assert [found.heading_path(at) for at in range(len(found.sections))] == [("Keys",), ("Keys", "Why")]


def test_a_page_of_nothing_but_navigation_is_read_all_the_same() -> None:
    assert read_page("<nav><ul><li><a href=a>Index</a><li><a href=b>Help</a></ul></nav>").text == "- Index\n- Help"


def test_text_between_blocks_inline_code_and_breaks() -> None:
    found = read_page("<div>one <code>max_skew_ms</code><br>two<p>three</p>four <span>five</span></div>")
    assert found.text == "one `max_skew_ms`\ntwo\n\nthree\n\nfour five"


@pytest.mark.parametrize(
    "page",
    [
        '<meta charset="iso-8859-1"><p>Grüße</p>'.encode("latin-1"),
        "<p>Grüße</p>".encode("utf-16"),
        "\ufeff<p>Grüße</p>".encode(),
        "<p>Grüße</p>".encode("cp1252"),
        '<?xml version="1.0" encoding="iso-8859-15"?><p>Grüße</p>'.encode("iso-8859-15"),
    ],
)
def test_the_encoding_is_told_by_mark_page_or_guess(page: bytes) -> None:
    assert read_page(page).text == "Grüße"


def test_a_charset_of_the_server_goes_first_and_a_false_one_is_passed_over() -> None:
    assert decode_with_fallbacks("привет".encode("koi8-r"), charset="koi8-r") == "привет"
    assert decode_with_fallbacks("привет".encode(), charset="no-such") == "привет"


def test_right_to_left_and_cjk_text_stays_in_order() -> None:
    found = read_page("<h1>שלום עולם</h1><p>これは日本語です。</p><p>مرحبا بالعالم</p>")
    assert found.text == "# שלום עולם\n\nこれは日本語です。\n\nمرحبا بالعالم"


def test_elements_nested_without_end_are_refused_at_once() -> None:
    with pytest.raises(SourceError, match="nested more than"):
        read_page("<div>" * 100_000 + "x")


def test_deep_nesting_below_the_limit_keeps_the_words() -> None:
    assert read_page("<div>" * 2_000 + "deep").text == "deep"
    assert "deep" in read_page("<ul><li>" * 400 + "deep").text
    assert "deep" in read_page("<b>" * 1_000 + "deep").text


def test_spans_that_claim_the_world_cost_no_more_than_the_page() -> None:
    row = "<tr>" + '<td colspan="1000" rowspan="1000">x</td>' * 50 + "</tr>"
    assert len(read_page(f"<table>{row * 50}</table>").text) < 1_000_000


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "selectolax.lexbor", None)
    with pytest.raises(DriverMissing, match=r"selectolax"):
        read_page("<p>a</p>")


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_table_in_text_is_cut_by_the_separator_it_has(separator: str) -> None:
    lines = [["name", "city"], ["Ada", '"Lon,don; or|not"'], ["Bob", "Rome"]]
    data = "\r\n".join(separator.join(line) for line in lines).encode("utf-8-sig")
    found = read_delimited(data, uri="a.csv", name="people-list.csv")
    assert found.text == "| name | city |\n| - | - |\n| Ada | Lon,don; or\\|not |\n| Bob | Rome |"
    assert found.title == "People list"


def test_ragged_rows_lose_no_cell() -> None:
    found = read_delimited(b"a,b\n1,2,3\n4\n", uri="a.csv", name="a.csv")
    assert found.text == "| a | b |  |\n| - | - | - |\n| 1 | 2 | 3 |\n| 4 |"


def test_a_transcript_says_who_speaks_and_when() -> None:
    data = b"""WEBVTT

NOTE nobody says this

1
00:11.000 --> 00:13.000 align:left
<v Ada>We are <i>here</i> &amp;

00:13.000 --> 00:16.000
<v Ada>still here.

01:00:16.000 --> 01:00:18.000
<v Bob>Who?
"""
    found = read_captions(data, uri="a.vtt", name="a.vtt")
    assert found.text == "[00:00:11] Ada: We are here & still here.\n\n[01:00:16] Bob: Who?"


def test_subtitles_have_no_speakers() -> None:
    data = b"1\r\n00:00:01,000 --> 00:00:02,000\r\nHello\r\n\r\n2\r\n00:00:02,000 --> 00:00:03,000\r\nthere\r\n"
    assert read_captions(data, uri="a.srt", name="a.srt").text == "[00:00:01] Hello there"
    with pytest.raises(SourceError, match="no cues"):
        read_captions(b"hello", uri="a.srt", name="a.srt")


def test_a_mail_says_who_wrote_what_to_whom() -> None:
    data = (
        b"From: Ada <ada@example.com>\r\nTo: Bob <bob@example.com>\r\nSubject: =?utf-8?q?Schl=C3=BCssel?=\r\n"
        b"Date: Wed, 01 May 2024 10:00:00 +0200\r\nMIME-Version: 1.0\r\n"
        b'Content-Type: multipart/mixed; boundary="x"\r\n\r\n--x\r\nContent-Type: text/html\r\n\r\n'
        b"<p>Rotate <b>now</b>.</p>\r\n--x\r\nContent-Type: text/plain\r\n"
        b'Content-Disposition: attachment; filename="keys.txt"\r\n\r\nsecret\r\n--x--\r\n'
    )
    found = read_mail(data, uri="a.eml", name="a.eml")
    assert found.title == "Schlüssel"
    assert found.text.startswith("# Schlüssel\n\nFrom: Ada <ada@example.com>\nTo: Bob <bob@example.com>\nDate: ")
    assert found.text.endswith("\n\nRotate now.\n\nAttachments: keys.txt")
    assert found.meta["date"] == "2024-05-01T10:00:00+02:00"
    assert "secret" not in found.text


def test_quoted_mail_is_a_quote_and_what_is_no_mail_an_error() -> None:
    found = read_mail(b"Subject: Re\nFrom: a@b\n\nYes.\n\n> Shall we?\n> Now?\n", uri="a.eml", name="a.eml")
    assert found.text.endswith("Yes.\n\n> Shall we?\n> Now?")
    with pytest.raises(SourceError, match="not a readable mail"):
        read_mail(b"hello there", uri="a.eml", name="a.eml")


def test_elements_with_too_many_attributes_are_refused() -> None:
    def make_page(count: int) -> str:
        return f'<p {" ".join(f"""a{n}="<p x>" """ for n in range(count))}>Keys.</p>'

    assert parse_html(make_page(500), uri="a").blocks[0].text == "Keys."
    with pytest.raises(SourceError, match="has more than 500 attributes"):
        parse_html(make_page(501), uri="a")


def test_menus_of_any_length_are_left_out() -> None:
    page = "<p>Keys.</p><select>" + "<option value=a>Iceland" * 3_000 + "</select><p>Locks.</p>"
    assert [block.text for block in parse_html(page, uri="a").blocks] == ["Keys.", "Locks."]
