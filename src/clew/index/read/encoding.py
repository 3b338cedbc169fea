"""Legacy encodings: which one a text is in that is not UTF-8.

charset-normalizer tells scripts apart, as Cyrillic from Japanese, and knows what is no text at all. Of the Latin
encodings it prefers the rarer ones, so these are told apart here.
"""

import re

MAX_HIGH_SHARE = 0.4  # of the letters of a Latin text that are not ASCII
MAX_RUN_LENGTH = 1.8  # of those in a row, on average
MAX_CONTROL_SHARE = 0.005  # of control characters in a text
_CANDIDATES = (
    *("cp1251", "koi8-r", "cp1253", "cp1255", "cp1256"),
    *("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr"),
)
_SAMPLE_BYTES = 200_000
# Letters of Polish, Hungarian and their neighbours are, read as Western European, signs in the middle of a word.
_SIGN_IN_WORD = re.compile(r"[^\W\d_][³¹¿¥£¼¾][^\W\d_]")
_MIN_SIGNS = 2
_HIGH_RUN = re.compile(rb"[\x80-\xff]+")
_ASCII_LETTER = re.compile(rb"[A-Za-z]")
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")
_TRUNCATED = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]{1}|[\xf0-\xf4][\x80-\xbf]{1,2})\Z")


def detect_legacy_encoding(data: bytes) -> str:
    """The encoding of a text that is not UTF-8; empty if it is none that is known, or UTF-8 that was cut off."""
    if _is_truncated_utf8(data):
        return ""
    if _looks_latin(data[:_SAMPLE_BYTES]):
        western = data.decode("cp1252", "replace")
        if len(_SIGN_IN_WORD.findall(western)) >= _MIN_SIGNS and _decodes(data, "cp1250"):
            return "cp1250"
        return "cp1252" if _decodes(data, "cp1252") else "latin-1"
    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE_BYTES], cp_isolation=list(_CANDIDATES)).best()
    return best.encoding if best is not None and _decodes(data, best.encoding) else ""


def _looks_latin(data: bytes) -> bool:
    """Whether the bytes are text whose letters beyond ASCII are few and stand alone, as accented ones do."""
    runs = _HIGH_RUN.findall(data)
    high, plain = sum(map(len, runs)), len(_ASCII_LETTER.findall(data))
    is_text = len(_CONTROL.findall(data)) <= MAX_CONTROL_SHARE * len(data)
    return is_text and bool(runs) and high <= MAX_HIGH_SHARE * (high + plain) and high <= MAX_RUN_LENGTH * len(runs)


def _is_truncated_utf8(data: bytes) -> bool:
    """Whether all but the last character is UTF-8, and that one is cut off after more than its first byte."""
    cut = _TRUNCATED.search(data[-4:])
    if cut is None or len(cut[0]) < 2:
        return False
    try:
        data[: -len(cut[0])].decode()
    except UnicodeDecodeError:
        return False
    return True


def _decodes(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True
