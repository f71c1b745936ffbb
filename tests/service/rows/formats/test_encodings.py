"""Texts in the encodings that people have, said or guessed."""

from __future__ import annotations

import encodings
import pkgutil
from contextlib import suppress
from itertools import product

import pytest
from pydantic import ValidationError

from service.datasets.schemas import UploadOptions
from service.errors import InvalidRequest, ServiceError
from service.rows.cell_texts.encodings import is_text_codec
from service.rows.cell_texts.reading import Reading
from tests.service.rows.reading import refusal, upload

NAMES = [one.name for one in pkgutil.iter_modules(encodings.__path__)]
ROWS = "größe,k\n1,über\n2,€\n"


@pytest.mark.parametrize(
    ("content", "where"),
    [(b"a,k\n1,\x81\x8d\xf7\x9d\n", "words"), (b"a,k\n1,x\n2,\0y\n", "line 3 ")],
    ids=["neither", "nul"],
)
def test_bytes_that_are_no_text(content: bytes, where: str) -> None:
    """What is in no encoding, or has NUL bytes, is a malformed request."""
    error = refusal(content)
    assert isinstance(error, InvalidRequest)
    assert error.code == "bad-encoding"
    assert where in error.detail


def test_bytes_that_are_not_in_the_given_encoding() -> None:
    """Without a byte order mark, cut, or with half a surrogate pair: never an unexpected error."""
    contents = b"", b"abc", b"1,2\n3,4\n", b"\x00\xd8" * 9, b"+2AA-,1\n", b"\xff\xfe\x00"
    for name, content in product(filter(is_text_codec, NAMES), contents):
        with suppress(ServiceError):
            upload(content, encoding=name)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8-sig", "utf-8"),
        ("utf-16", "utf-16"),
        ("utf-32", "utf-32"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
    ],
)
def test_encodings_that_are_known(encoding: str, said: str) -> None:
    """A byte order mark decides, or the NUL bytes of UTF-16; the reply says which it is."""
    result = upload(ROWS.encode(encoding))
    assert result.parsed.columns == ["größe"]
    assert result.parsed.classes == ["über", "€"]
    assert (result.parsed.reading or {})["encoding"] == said
    assert "guessed-encoding" not in {one["code"] for one in result.parsed.warnings}


WORDS = {
    "windows-1252": "Köln München Düsseldorf größer häufig",
    "macroman": "Málaga Århus Françoise Zoë Núñez",
    "windows-1250": "Plzeň Ústí Děčín příliš žluťoučký kůň",
    "iso-8859-2": "Kraków Łódź Gdańsk Częstochowa mężczyzna gęślą",
    "windows-1251": "Москва Омск Казань да нет",
    "koi8-r": "Москва Омск Казань да нет",
    "ibm866": "Москва Омск Казань да нет",
    "windows-1253": "Αθήνα Θεσσαλονίκη ναι όχι γυναίκα",
    "windows-1254": "İstanbul İzmir Şanlıurfa kadın çok ğ",
    "windows-1255": "ירושלים חיפה כן לא גבר אישה",
    "cp932": "東京 大阪 名古屋 はい いいえ",
    "gb18030": "北京 上海 广州 是 否",
    "big5": "台北 高雄 臺南 是 否 壞",
    "cp949": "서울 부산 대구 예 아니오",
}


@pytest.mark.parametrize("encoding", WORDS)
def test_encodings_are_guessed(encoding: str) -> None:
    """From a few cells; a warning shows three of them, and how the next likely one reads them."""
    words = WORDS[encoding].split()
    rows = [f"{word},{i},{'ab'[i % 2]}" for i in range(3) for word in words]
    result = upload("\n".join(["wort,n,k", *rows]).encode(encoding))
    assert result.parsed.table[0]["levels"] == sorted(words)
    (warning,) = (one for one in result.parsed.warnings if one["code"] == "guessed-encoding")
    assert all(repr(word) in warning["message"] for word in words[:3])
    assert "`encoding`" in warning["message"]


def test_labels_in_another_file_have_an_encoding_too() -> None:
    """The same guess, with a warning, or the same parameter."""
    rows = "a,b\n1,2\n3,5\n"
    result = upload(rows, labels="größer\nhäufig\n".encode("cp1252"))
    assert result.parsed.classes == ["größer", "häufig"]
    assert "guessed-encoding" in {one["code"] for one in result.parsed.warnings}
    result = upload(rows, labels="größer\nhäufig\n".encode("cp1252"), encoding="cp1252")
    assert result.parsed.classes == ["größer", "häufig"]


def test_utf8_read_as_another_encoding_is_named() -> None:
    """As in a file that mixes encodings."""
    result = upload("wort,k\nCafé,a\nTee,b\n", encoding="windows-1252")
    (warning,) = (one for one in result.parsed.warnings if one["code"] == "mixed-encodings")
    assert "'Café' as 'CafÃ©'" in warning["message"]


@pytest.mark.parametrize("name", ["Windows-1251", "SHIFT_JIS", "mac-roman", "latin-1", "auto"])
def test_every_name_of_python_is_taken(name: str) -> None:
    assert UploadOptions.model_validate({"encoding": name}).encoding == name.lower()


@pytest.mark.parametrize(
    "name",
    ["base64", "rot13", "idna", "punycode", "utf-7", "unicode_escape", "../utf_8", "utf\0", "é"],
)
def test_what_is_not_an_encoding_of_texts(name: str) -> None:
    """Codecs of bytes, of names and of source code; those that look through a text again."""
    with pytest.raises(ValidationError):
        UploadOptions.model_validate({"encoding": name})
    with pytest.raises(ValueError, match="encoding"):
        Reading.of({"encoding": name})


def test_rows_to_predict_in_the_encoding_of_the_file() -> None:
    """Or in UTF-8, or in UTF-16 with a byte order mark."""
    reading = Reading.of({"encoding": "shift_jis"})
    for encoding in ("shift_jis", "utf-8", "utf-16"):
        assert reading.as_utf8("都市\n東京".encode(encoding)).decode() == "都市\n東京"
    reading = Reading.of({"encoding": "iso2022_jp"})
    assert reading.as_utf8("都市".encode("iso2022_jp")).decode() == "都市"
