"""JSON files that somebody may have changed: what does not fit a declaration is named, and no value is repeated."""

import json
from dataclasses import dataclass

import pytest

from tallyveil.declared import (
    ABSENT,
    Content,
    ContentInPart,
    Declared,
    Format1,
    Many,
    Number,
    Text,
    Whole,
    mapping_of,
)
from tallyveil.errors import StoreError
from tallyveil.storage.json_files import parsed, read_declared, read_json_object


class Piece(Content):
    key: str | None


class Sample(Content):
    name: str
    count: str | None
    often: int = ABSENT
    rate: float = ABSENT
    parts: dict[str, Piece]
    rows: list[Piece] = ABSENT


class SampleInPart(ContentInPart):
    name: str


WHOLE = {"name": "a", "count": None, "parts": {"first": {"key": None}}}


@pytest.fixture
def read(tmp_path):
    """Reads a value from a file."""

    def read(value, kind=Sample):
        path = tmp_path / "sample.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return read_declared(path, kind, "Restore it.")

    return read


@pytest.mark.parametrize(
    "more", [{}, {"often": 3, "count": "n"}, {"rate": 1}, {"rate": 0.5, "rows": [{"key": "k"}]}]
)
def test_what_fits_is_read_as_it_stands(read, more):
    content, sample = read(WHOLE | more)
    assert json.dumps(content) == json.dumps(WHOLE | more)
    assert sample.parts["first"].key is None


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"name": 1}, "name"),
        ({"name": None}, "name"),
        ({"often": "x"}, "often"),
        ({"often": True}, "often"),
        ({"often": 1.0}, "often"),
        ({"often": None}, "often"),
        ({"rate": True}, "rate"),
        ({"rate": "0.5"}, "rate"),
        ({"rate": 10**400}, "rate"),
        ({"parts": []}, "parts"),
        ({"parts": {"a": 1}}, "parts.a"),
        ({"parts": {"a": {}}}, "parts.a.key"),
        ({"rows": [{"key": "k"}, {"key": 5}]}, "rows[1].key"),
        ({"nobody": 1}, "nobody"),
    ],
)
def test_the_place_that_does_not_fit_is_named(read, changed, place):
    with pytest.raises(StoreError) as caught:
        read(WHOLE | changed)
    assert caught.value.code == "release-damaged"
    assert f"sample.json is damaged: '{place}' is missing or is not what the run wrote: " in str(caught.value)


@pytest.mark.parametrize("value", [[], None, 5, "text"])
def test_a_value_of_another_kind_is_named_as_a_whole(read, value):
    with pytest.raises(StoreError, match="'the whole' is missing or is not what the run wrote"):
        read(json.dumps(value))


@pytest.mark.parametrize(
    "text",
    ["", "{", "[" * 100_000, '{"name": "a", "name": "b"}', "9" * 5_000],
    ids=["empty", "cut", "deep", "twice", "long"],
)
def test_what_is_no_json_is_refused(read, text):
    with pytest.raises(StoreError) as caught:
        read(text)
    assert caught.value.code == "release-unreadable"


def test_no_value_and_no_long_name_is_repeated(read):
    with pytest.raises(StoreError) as caught:
        read({"x" * 100_000: "three"}, dict[str, int])
    assert f"'{'x' * 77}...' is missing" in str(caught.value)
    assert "three" not in str(caught.value)


def test_other_keys_may_stand_beside_what_is_declared_in_part(read):
    content, sample = read({"more": [1], "name": "a"}, SampleInPart)
    assert content == {"more": [1], "name": "a"}
    assert sample.name == "a"


def test_an_object_is_wanted(tmp_path):
    path = tmp_path / "list.json"
    path.write_text("[1]")
    with pytest.raises(StoreError, match="holds no JSON object"):
        read_json_object(path, "Restore it.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Declared):
    format: Format1 = 1
    name: Text
    sizes: Many[Whole]
    seconds: Number


def test_a_record_is_read_as_it_was_written():
    row = Row(name="a", sizes=(1, 2), seconds=0.5)
    text = json.dumps(mapping_of(row))
    assert text == '{"format": 1, "name": "a", "sizes": [1, 2], "seconds": 0.5}'
    assert parsed(text, Row) == row


@pytest.mark.parametrize(
    "changed",
    [
        {"format": 2},
        {"format": True},
        {"format": 1.0},
        {"name": 1},
        {"sizes": 1},
        {"sizes": ["1"]},
        {"more": 1},
    ],
)
def test_a_damaged_record_is_none(changed):
    whole = {"format": 1, "name": "a", "sizes": [1], "seconds": 0.5}
    assert parsed(json.dumps(whole), Row) is not None
    assert parsed(json.dumps(whole | changed), Row) is None
    assert parsed("{", Row) is None
    assert parsed(None, Row) is None
