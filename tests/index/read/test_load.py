"""Encodings: text that is not UTF-8 is read in the legacy encoding that it is in, and what is no text is refused."""

from pathlib import Path

import pytest

from clew.core.errors import SourceError
from clew.index.read import read_file

TEXTS = {
    "latin-1": "Le café au lait coûte très cher à l'été, où l'on préfère être près de la forêt.",
    "iso-8859-1": "café au lait",
    "cp1252": "Die Schlüssel werden täglich geändert – größere Änderungen müssen geprüft werden.",
    "cp1250": "Książka leży na półce obok świecy, a żółw pływa w jeziorze.",
    "cp1251": "Ключи хранилища меняются каждый день. Обратитесь к администратору.",
    "koi8-r": "Ключи хранилища меняются каждый день. Обратитесь к администратору.",
    "cp1253": "Τα κλειδιά αλλάζουν κάθε μέρα στο θησαυροφυλάκιο.",
    "shift_jis": "鍵は毎日交換されます。手順については手引きを参照してください。",
    "euc_jp": "鍵は毎日交換されます。手順については手引きを参照してください。",
    "gb18030": "钥匙每天轮换。有关程序，请参阅手册。",
    "big5": "鑰匙每天輪換。有關程序，請參閱手冊。",
    "euc_kr": "열쇠는 매일 교체됩니다. 절차는 안내서를 참조하십시오.",
}


@pytest.mark.parametrize("encoding", TEXTS)
def test_a_legacy_encoding_is_detected(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "page.md"
    file.write_bytes(f"# Keys\n\n{TEXTS[encoding]}\n".encode(encoding))
    assert read_file(file, uri="a").text == f"# Keys\n\n{TEXTS[encoding]}\n"


def test_one_accent_in_a_long_text(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_bytes(("# Written by José.\n" + "x = 1\n" * 100).encode("latin-1"))
    assert read_file(file, uri="a").text.startswith("# Written by José.\n")


@pytest.mark.parametrize(
    "data", [b"cut off \xe9\x8d", b"\x89PNG\r\n\x1a\n" + bytes(range(128, 256)) * 3, bytes(range(1, 256)) * 4]
)
def test_what_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "page.md"
    file.write_bytes(data)
    with pytest.raises(SourceError, match="is not UTF-8"):
        read_file(file, uri="a")
