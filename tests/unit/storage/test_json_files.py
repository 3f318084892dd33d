"""Shapes of JSON: the first place that does not fit is named."""

import json

import pytest

from tallyveil.errors import StoreError
from tallyveil.storage.json_files import TEXT_OR_NONE, Each, Perhaps, misfit, read_shaped

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


def test_a_key_of_any_length_leaves_the_message_short(tmp_path):
    path = tmp_path / "counts.json"
    path.write_text(json.dumps({"x" * 100_000: "three"}))
    with pytest.raises(StoreError) as caught:
        read_shaped(path, Each(int), "Restore it.")
    assert caught.value.code == "release-damaged"
    assert f"'{'x' * 77}...' is missing or is not what the run wrote. Restore it." in str(caught.value)
