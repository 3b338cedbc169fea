"""LaTeX inside a paragraph: commands become the text that they set, formulas stay as they are written."""

import re
import unicodedata

MAX_GROUP_CHARS = 1000  # of an argument that is read whole; a longer one is taken for one that is not closed
_TOKEN = re.compile(
    r"\\[A-Za-z]+\*?[ \t]*|\\.|[{}~$]|---?|``|''|\n[ \t]*", re.DOTALL
)  # commands, braces, formulas, dashes, quotes, line ends
_GROUP_MARK = re.compile(r"[{}]|\\.", re.DOTALL)
_OPTIONS = re.compile(r"\s*\[[^\]\n]{0,500}\]")
_ACCENTS = {
    "'": "\u0301",
    "`": "\u0300",
    "^": "\u0302",
    '"': "\u0308",
    "~": "\u0303",
    "=": "\u0304",
    ".": "\u0307",
    "c": "\u0327",
    "v": "\u030c",
    "u": "\u0306",
    "H": "\u030b",
    "k": "\u0328",
    "r": "\u030a",
}
_LETTERS = {
    "ss": "ß",
    "ae": "æ",
    "AE": "Æ",
    "oe": "œ",
    "OE": "Œ",
    "o": "ø",
    "O": "Ø",
    "l": "ł",
    "L": "Ł",
    "aa": "å",
    "AA": "Å",
    "i": "ı",
    "j": "ȷ",
    "LaTeX": "LaTeX",
    "TeX": "TeX",
    "ldots": "…",
    "dots": "…",
    "S": "§",
    "P": "¶",
    "today": "",
    "copyright": "©",
    "pounds": "£",
    "euro": "€",
    "textendash": "–",
    "textemdash": "—",
    "textbackslash": "\\",
    "textasciitilde": "~",
    "textasciicircum": "^",
    "textbar": "|",
    "textless": "<",
    "textgreater": ">",
    "quad": " ",
    "qquad": " ",
    "newline": " ",
    "par": "\n",
    "textquotesingle": "'",
}
_BY_CHARACTER = {"\\": " ", ",": " ", ";": " ", ":": " ", "!": "", "/": "", "-": "", "@": "", " ": " ", "\n": " "}
# Commands whose arguments say nothing to a reader.
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


def strip_labels(formula: str) -> str:
    """The formula without its labels, which say nothing to a reader."""
    return _LABEL.sub("", formula)


def read_group(text: str, at: int) -> tuple[str, int]:
    """The argument in braces at a position (after white space) and where it ends; empty if there is none."""
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
    """The position after an optional argument in brackets, if there is one."""
    found = _OPTIONS.match(text, at)
    return found.end() if found else at


def convert_inline(text: str) -> str:
    """The text of LaTeX source as plain text, in one pass."""
    parts: list[str] = []
    closers: list[str | None] = []  # what the braces that are open add at their ends
    # What the next brace adds at its end; None for an argument, which is kept apart from the one after it. A paragraph
    # may begin with the arguments of the environment around it.
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
    """What a command shows, the position after it, and what its argument adds at its end."""
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
    # Any other command shows its arguments. One without arguments separates words, as \centering does.
    return "" if text[at : at + 1] in "{[" else " ", at, None


def _convert_accent(name: str, text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] == "{":
        letter, at = read_group(text, at)
    else:
        letter, at = text[at : at + 1], at + 1
    letter = {"\\i": "i", "\\j": "j"}.get(letter.strip(), letter)
    return unicodedata.normalize("NFC", letter[:1] + _ACCENTS[name] + letter[1:]) if letter else "", at


def _skip_groups(text: str, at: int) -> int:
    """The position after all arguments that follow."""
    while True:
        at = skip_options(text, at)
        if text[at : at + 1] != "{":
            return at
        _, at = read_group(text, at)
