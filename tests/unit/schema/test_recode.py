import numpy as np
import pytest

from tallyveil.errors import SchemaError
from tallyveil.schema.attribute import Attribute, Recode

AGE = Attribute("age", ("child", "adult", "elder", "unknown"))


def test_layers_leave_out_levels_in_no_group() -> None:
    recode = Recode("ages", "age", (("old", ("elder", "adult")), ("young", ("child",))))
    (codes,) = recode.layers(AGE)
    assert codes.dtype == np.int32
    assert codes.tolist() == [1, 0, 0, -1]
    assert recode.labels == ("old", "young")
    assert recode.size == 2
    with pytest.raises(ValueError, match="read-only"):
        codes[0] = 0


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((("a", ("child",)), ("b", ("adult", "child"))), "'child' is in groups 'a' and 'b'"),
        ((("a", ("child", "child")),), "given twice"),
        ((("a", ("child",)), ("a", ("adult",))), "'a' is given twice"),
        ((("a", ()),), "at least one"),
        ((), "at least one"),
    ],
)
def test_bad_groups_are_refused(groups: tuple[tuple[str, tuple[str, ...]], ...], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Recode("ages", "age", groups)


def test_overlapping_groups_are_divided_into_layers() -> None:
    groups = (("young", ("child",)), ("known", ("child", "adult", "elder")), ("old", ("elder",)))
    recode = Recode("ages", "age", groups, overlapping=True)
    assert [layer.tolist() for layer in recode.layers(AGE)] == [[0, -1, 2, -1], [1, 1, 1, -1]]


def test_a_level_is_not_counted_twice_in_one_group() -> None:
    with pytest.raises(SchemaError, match="'child' is given twice"):
        Recode("ages", "age", (("a", ("child", "child")),), overlapping=True)


def test_unknown_level_suggests_the_close_one() -> None:
    with pytest.raises(SchemaError, match=r"recode 'ages': attribute 'age' has no level 'adlt'.*'adult'"):
        Recode("ages", "age", (("a", ("adlt",)),)).layers(AGE)


def test_layers_want_the_right_attribute() -> None:
    with pytest.raises(SchemaError, match="groups attribute 'sex', got attribute 'age'"):
        Recode("r", "sex", (("a", ("adult",)),)).layers(AGE)
