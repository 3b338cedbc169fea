"""LaTeX: sections, paragraphs, lists, tables, formulas and code of a source file; included files are not read."""

import re
import unicodedata
from collections.abc import Generator, Iterator
from datetime import datetime

from clew.core.types import Document
from clew.index.read.blocks import ParsedSource, SourceBlock, build_document, split_large_table

_LEVELS = ("part", "chapter", "section", "subsection", "subsubsection", "paragraph", "subparagraph")
_CODE = frozenset(("verbatim", "Verbatim", "lstlisting", "minted", "alltt", "comment", "filecontents"))
_MATH = frozenset(("equation", "align", "gather", "multline", "eqnarray", "displaymath", "math", "alignat", "flalign"))
_TABLES = frozenset(("tabular", "tabularx", "longtable", "tabulary"))
_LISTS = frozenset(("itemize", "enumerate", "description", "thebibliography", "compactitem", "compactenum"))
_PICTURES = frozenset(("tikzpicture", "picture", "pgfpicture", "asy", "pspicture"))
_MARK = re.compile(
    rf"\\(?P<level>{'|'.join(_LEVELS)})(?![A-Za-z])\*?"
    r"|\\begin\s*\{(?P<begin>[A-Za-z]+)\*?\}|\\end\s*\{(?P<end>[A-Za-z]+)\*?\}"
    r"|\\(?P<item>item|bibitem)(?![A-Za-z])|\\(?P<caption>caption)\*?(?![A-Za-z])"
    r"|(?P<math>\\\[|\$\$)|(?P<blank>\n[ \t]*\n\s*)"
)
_COMMENT = re.compile(r"(?<!\\)((?:\\\\)*)%.*")
_RULES = re.compile(r"\\(?:hline|toprule|midrule|bottomrule|endhead|endfirsthead|endfoot|endlastfoot)(?![A-Za-z])")
_ROW_END = re.compile(r"\\\\(?:\[[^\]\n]*\])?|\\tabularnewline(?![A-Za-z])")
_CELL = re.compile(r"(?<!\\)&")
_AND = re.compile(r"\s*\\and(?![A-Za-z])\s*")
_DATE_FORMATS = ("%Y-%m-%d", "%B %d, %Y", "%d %B %Y", "%B %Y")
MAX_GROUP_CHARS = 1000  # a longer argument counts as unclosed
_TOKEN = re.compile(
    r"\\[A-Za-z]+\*?[ \t]*|\\.|[{}~$]|---?|``|''|\n[ \t]*", re.DOTALL
)  # commands, braces, formulas, dashes, quotes, line ends
_GROUP_MARK = re.compile(r"[{}]|\\.", re.DOTALL)
_OPTIONS = re.compile(r"\s*\[[^\]\n]{0,500}\]")
_ACCENTS = dict(
    zip("'`^\"~=.cvuHkr", "\u0301\u0300\u0302\u0308\u0303\u0304\u0307\u0327\u030c\u0306\u030b\u0328\u030a", strict=True)
)
_SIGNS = """ss ß ae æ AE Æ oe œ OE Œ o ø O Ø l ł L Ł aa å AA Å i ı j ȷ LaTeX LaTeX TeX TeX ldots … dots … S § P ¶
copyright © pounds £ euro € textendash – textemdash — textbackslash \\ textasciitilde ~ textasciicircum ^ textbar |
textless < textgreater > textquotesingle '"""  # each command and its sign
_LETTERS = dict(zip(_SIGNS.split()[::2], _SIGNS.split()[1::2], strict=True))
_LETTERS |= {**dict.fromkeys(("quad", "qquad", "newline"), " "), "today": "", "par": "\n"}
_BY_CHARACTER = {"\\": " ", ",": " ", ";": " ", ":": " ", "!": "", "/": "", "-": "", "@": "", " ": " ", "\n": " "}
# Commands whose arguments are not text for a reader.
_WITHOUT_TEXT = frozenset(
    (
        *("label", "vspace", "hspace", "includegraphics", "input", "include", "bibliography", "bibliographystyle"),
        *("usepackage", "documentclass", "setlength", "addtolength", "setcounter", "addtocounter", "pagestyle"),
        *("thispagestyle", "newcommand", "renewcommand", "providecommand", "def", "let", "index", "pagenumbering"),
        *("color", "fontsize", "selectfont", "rule", "phantom", "hphantom", "vphantom", "thanks", "markboth", "cline"),
        *("cmidrule", "addbibresource", "graphicspath", "hypersetup", "newtheorem", "DeclareMathOperator"),
    )
)
_LABEL = re.compile(r"[ \t]*\\label\s*\{[^{}]*\}")
_CITES = re.compile(r"(?:[a-zA-Z]*cite[a-zA-Z]*|nocite)\*?\Z")
_REFERENCES = frozenset(("ref", "eqref", "pageref", "autoref", "cref", "Cref", "nameref", "url", "path", "nolinkurl"))


def read_tex(text: str, *, uri: str, name: str) -> Document:
    """Return the Document of a LaTeX file, a section for each sectioning command; author and date are in `meta`."""
    source = _strip_comments(text)
    start, end = source.find("\\begin{document}"), source.rfind("\\end{document}")
    body = source[start + len("\\begin{document}") if start >= 0 else 0 : end if end >= 0 else None]
    title, author, date = (_read_declaration(source, command) for command in ("title", "author", "date"))
    head = [SourceBlock("heading", title, level=1)] if title else []
    head += [SourceBlock("paragraph", "\n".join(filter(None, (author, date))))] if author or date else []
    meta = {"author": author} if author else {}
    if at := _parse_date(date):
        meta["date"] = at
    used = [level for level in _LEVELS if re.search(rf"\\{level}(?![A-Za-z])", body)]
    levels = {level: rank + (2 if title else 1) for rank, level in enumerate(used)}
    parsed = ParsedSource([*head, *_Parser(body, levels).parse()], title, meta)
    return build_document(parsed, uri=uri, name=name, source_format="tex")


def _strip_comments(text: str) -> str:
    """Remove comments, except in code; a line with only a comment is removed whole."""
    lines: list[str] = []
    code = ""
    for line in text.split("\n"):
        if code:
            code = "" if f"\\end{{{code}" in line else code
            lines.append(line)
            continue
        code = next((name for name in _CODE if f"\\begin{{{name}" in line and f"\\end{{{name}" not in line), "")
        kept = line if code else _COMMENT.sub(r"\1", line)
        if kept.strip() or not line.strip():
            lines.append(kept)
    return "\n".join(lines)


def _read_declaration(source: str, command: str) -> str:
    """Return the argument of \\title, \\author or \\date on one line."""
    found = re.search(rf"\\{command}(?![A-Za-z])", source)
    if found is None:
        return ""
    argument, _ = read_group(source, skip_options(source, found.end()))
    return " ".join(convert_inline(_AND.sub(", ", argument)).split())


def _parse_date(text: str) -> str:
    for form in _DATE_FORMATS:
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    return ""


class _Parser:
    """A parser that walks the body from mark to mark; text between marks joins the open paragraph or list item."""

    def __init__(self, body: str, levels: dict[str, int]) -> None:
        self._body, self._levels = body, levels
        self._text: list[str] = []
        self._lists: list[str] = []
        self._marker: str | None = None  # of the open list item
        self._is_quote = False

    def parse(self) -> Iterator[SourceBlock]:
        """Yield the blocks of the body, in order."""
        body, at = self._body, 0
        while (mark := _MARK.search(body, at)) is not None:
            self._text.append(body[at : mark.start()])
            at = mark.end()
            if mark["blank"]:
                yield from self._flush(ends_item=False)
                continue
            yield from self._flush()
            if mark["level"]:
                title, at = read_group(body, skip_options(body, at))
                yield SourceBlock("heading", _to_line(title), level=self._levels[mark["level"]])
            elif mark["begin"]:
                at = yield from self._begin(mark["begin"], at)
            elif mark["end"]:
                self._end(mark["end"])
            elif mark["item"]:
                at = self._open_item(mark["item"], at)
            elif mark["caption"]:
                caption, at = read_group(body, skip_options(body, at))
                yield SourceBlock("caption", _to_line(caption))
            else:
                at = yield from self._take_formula("\\]" if mark["math"] == "\\[" else "$$", at)
        self._text.append(body[at:])
        yield from self._flush()

    def _flush(self, *, ends_item: bool = True) -> Iterator[SourceBlock]:
        """Yield the open paragraph or list item; a blank line alone does not end an item."""
        if not ends_item and self._marker is not None:
            self._text.append("\n")
            return
        text = convert_inline("".join(self._text)).strip()
        self._text = []
        if text and self._marker is not None:
            yield SourceBlock("list_item", text, level=max(0, len(self._lists) - 1), marker=self._marker)
        elif text:
            yield SourceBlock("quote" if self._is_quote else "paragraph", text)
        self._marker = None

    def _begin(self, name: str, at: int) -> Generator[SourceBlock, None, int]:
        """Yield the block of an environment that is read as a whole; return the position after it, or its opening."""
        if name in _CODE | _MATH | _PICTURES | _TABLES:
            end = re.compile(rf"\\end\s*\{{{name}\*?\}}").search(self._body, at)
            stop, after = end.span() if end else (len(self._body), len(self._body))
            content = self._body[at:stop]
            if name in _MATH:
                yield SourceBlock("formula", strip_labels(content))
            elif name in _TABLES:
                yield from split_large_table(_split_rows(content))
            elif name in _CODE and name != "comment":
                yield SourceBlock("code", content[skip_options(content, 0) :].strip("\n"))
            return after
        if name in _LISTS:
            self._lists.append(name)
            if name == "thebibliography":  # skip its argument, the widest label
                _, at = read_group(self._body, at)
        elif name in ("quote", "quotation", "verse"):
            self._is_quote = True
        elif name == "abstract":
            yield SourceBlock("heading", "Abstract", level=min(self._levels.values(), default=1))
        return skip_options(self._body, at)

    def _end(self, name: str) -> None:
        if name in _LISTS and self._lists:
            self._lists.pop()
        elif name in ("quote", "quotation", "verse"):
            self._is_quote = False

    def _open_item(self, command: str, at: int) -> int:
        """Open a list item; its text begins with its label, or the key of a reference."""
        self._marker = "1." if self._lists and self._lists[-1] in ("enumerate", "compactenum") else "-"
        if command == "bibitem":
            key, at = read_group(self._body, skip_options(self._body, at))
            self._text.append(f"[{key}]")
            return at
        after = skip_options(self._body, at)
        if label := self._body[at:after].strip().strip("[]").strip():
            self._text.append(f"{label}:")
        return after

    def _take_formula(self, closing: str, at: int) -> Generator[SourceBlock, None, int]:
        end = self._body.find(closing, at)
        stop = end if end >= 0 else len(self._body)
        yield SourceBlock("formula", strip_labels(self._body[at:stop]))
        return min(len(self._body), stop + len(closing))


def _to_line(text: str) -> str:
    return " ".join(convert_inline(text).split())


def _split_rows(content: str) -> list[list[str]]:
    """Split the rows of a table, skipping the description of its columns."""
    at = skip_options(content, 0)
    first, after = read_group(content, at)
    if first and content[after : after + 1] == "{":  # tabularx states its width first
        _, after = read_group(content, after)
    rows = (_RULES.sub("", row) for row in _ROW_END.split(content[after:]))
    return [[_to_line(cell) for cell in _CELL.split(row)] for row in rows if row.strip()]


def strip_labels(formula: str) -> str:
    """Remove the labels from a formula."""
    return _LABEL.sub("", formula)


def read_group(text: str, at: int) -> tuple[str, int]:
    """Return the argument in braces at a position (after white space) and its end; empty if there is none."""
    while at < len(text) and text[at].isspace():
        at += 1
    if at >= len(text) or text[at] != "{":
        return "", at
    if text.find("}", at, at + MAX_GROUP_CHARS) < 0:
        return "", at + 1
    depth = 0
    for mark in _GROUP_MARK.finditer(text, at, at + MAX_GROUP_CHARS):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if depth == 0:
            return text[at + 1 : mark.start()], mark.end()
    return "", at + 1


def skip_options(text: str, at: int) -> int:
    """Return the position after an optional argument in brackets, if there is one."""
    found = _OPTIONS.match(text, at)
    return found.end() if found else at


def convert_inline(text: str) -> str:
    """Convert LaTeX source to plain text in one pass."""
    parts: list[str] = []
    closers: list[str | None] = []  # the text to add at the end of each open brace
    # The text to add at the end of the next brace; None for an argument, which is separated from the next one. A
    # paragraph may begin with the arguments of the environment around it.
    pending: str | None = None
    at = 0
    while (token := _TOKEN.search(text, at)) is not None:
        parts.append(text[at : token.start()])
        pending = "" if parts[-1].strip() else pending
        mark, at = token[0], token.end()
        if mark == "{":
            closers.append(pending)
            pending = ""
        elif mark == "}":
            closer = closers.pop() if closers else ""
            is_followed = closer is None and text[at : at + 1] == "{"
            pending = None if is_followed else ""
            parts.append(" " if is_followed else closer or "")
        elif mark == "$":
            end = text.find("$", at, at + MAX_GROUP_CHARS)
            if end < 0:
                parts.append("$")
            else:
                parts.append(strip_labels(text[at - 1 : end + 1]))
                at = end + 1
        elif mark[0] == "\\":
            shown, at, pending = _convert_command(mark[1:].rstrip(" \t"), mark, text, at)
            parts.append(shown)
        else:
            parts.append({"~": " ", "--": "–", "---": "—", "``": "“", "''": "”"}.get(mark, "\n"))
    parts.append(text[at:])
    return "".join(parts)


def _convert_command(name: str, mark: str, text: str, at: int) -> tuple[str, int, str | None]:
    """Return the text of a command, the position after it, and the text to add at the end of its argument."""
    bare = name.rstrip("*")
    if name in _ACCENTS and (not name.isalpha() or text[at : at + 1] == "{"):
        return (*_convert_accent(name, text, at), "")
    if bare in _LETTERS:
        return _LETTERS[bare] + (" " if mark.endswith(" ") and bare in ("LaTeX", "TeX") else ""), at, ""
    if not bare.isalpha():
        return _BY_CHARACTER.get(name, name), at, ""
    at = skip_options(text, at)
    if bare in _WITHOUT_TEXT:
        after = _skip_groups(text, at)
        return "", after, ""
    if _CITES.match(bare) or bare in _REFERENCES:
        at = skip_options(text, at)
        target, at = read_group(text, at)
        if bare == "nocite":
            return "", at, ""
        return (target if bare in _REFERENCES else f"[{target}]"), at, ""
    if bare == "href":
        _, at = read_group(text, at)
        return "", at, ""
    if bare == "footnote":
        return " (", at, ")"
    # Show the arguments of any other command. One without arguments, such as \centering, separates words.
    return "" if text[at : at + 1] in "{[" else " ", at, None


def _convert_accent(name: str, text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] == "{":
        letter, at = read_group(text, at)
    else:
        letter, at = text[at : at + 1], at + 1
    letter = {"\\i": "i", "\\j": "j"}.get(letter.strip(), letter)
    return unicodedata.normalize("NFC", letter[:1] + _ACCENTS[name] + letter[1:]) if letter else "", at


def _skip_groups(text: str, at: int) -> int:
    """Return the position after all following arguments."""
    while True:
        at = skip_options(text, at)
        if text[at : at + 1] != "{":
            return at
        _, at = read_group(text, at)
