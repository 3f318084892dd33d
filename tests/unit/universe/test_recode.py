import numpy as np
import pytest

from tallyveil.errors import SchemaError
from tallyveil.universe import Attribute, Recode

AGE = Attribute("age", ("child", "adult", "elder", "unknown"))


def test_codes_leave_out_levels_in_no_group() -> None:
    recode = Recode("ages", "age", (("old", ("elder", "adult")), ("young", ("child",))))
    codes = recode.codes(AGE)
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


def test_unknown_level_suggests_the_close_one() -> None:
    with pytest.raises(SchemaError, match=r"recode 'ages': attribute 'age' has no level 'adlt'.*'adult'"):
        Recode("ages", "age", (("a", ("adlt",)),)).codes(AGE)


def test_codes_want_the_right_attribute() -> None:
    with pytest.raises(SchemaError, match="groups attribute 'sex', got attribute 'age'"):
        Recode("r", "sex", (("a", ("adult",)),)).codes(AGE)
