"""Shapes of JSON: the first place that does not fit is named."""

import pytest

from tallyveil.storage.json_files import TEXT_OR_NONE, Each, Perhaps, misfit

SHAPE = {"name": str, "count": TEXT_OR_NONE, "often": Perhaps(int), "parts": Each({"key": TEXT_OR_NONE})}
WHOLE = {"name": "a", "count": None, "parts": {"one": {"key": None}}}


def test_what_fits_has_no_place():
    assert misfit(WHOLE, SHAPE) is None
    assert misfit(WHOLE | {"often": 3, "count": "n"}, SHAPE) is None


def test_a_key_that_may_be_null_must_be_there():
    """Whoever reads the content takes the key by its name."""
    assert misfit({"name": "a", "parts": {}}, SHAPE) == "count"
    assert misfit(WHOLE | {"parts": {"one": {}}}, SHAPE) == "parts.one.key"


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"name": 1}, "name"),
        ({"often": "x"}, "often"),
        ({"parts": []}, "parts"),
        ({"parts": {"a": 1}}, "parts.a"),
    ],
)
def test_the_place_that_does_not_fit_is_named(changed, place):
    assert misfit(WHOLE | changed, SHAPE) == place
