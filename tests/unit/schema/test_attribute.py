import pytest

from tallyveil.errors import SchemaError
from tallyveil.schema.attribute import Attribute


def test_code_is_the_place_of_the_level() -> None:
    sex = Attribute("sex", ("male", "female"))
    assert sex.size == 2
    assert [sex.code(level) for level in sex.levels] == [0, 1]


@pytest.mark.parametrize(
    ("name", "levels", "message"),
    [
        ("sex", ("male", "male"), "'male' is given twice"),
        ("sex", ("male", ""), "non-empty"),
        ("sex", (), "at least one"),
        ("", ("male",), "non-empty"),
        (" sex", ("male",), "spaces"),
        ("sex*age", ("male",), r"'\*'"),
        ("total", ("male",), "reserved"),
        ("detailed", ("male",), "reserved"),
    ],
)
def test_unusable_names_are_refused(name: str, levels: tuple[str, ...], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Attribute(name, levels)


def test_unknown_level_suggests_the_close_one() -> None:
    with pytest.raises(SchemaError, match=r"'sex' has no level 'femal'.*'female'"):
        Attribute("sex", ("male", "female")).code("femal")


def test_hint_ignores_letter_case() -> None:
    with pytest.raises(SchemaError, match=r"Did you mean 'male'"):
        Attribute("sex", ("male", "x")).code("MALE")


def test_hint_lists_what_is_known_when_nothing_is_close() -> None:
    with pytest.raises(SchemaError, match=r"Known: male, female\."):
        Attribute("sex", ("male", "female")).code("q")
