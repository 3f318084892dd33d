import numpy as np
import pytest

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


def test_overlapping_groups_are_divided_into_layers() -> None:
    groups = (("young", ("child",)), ("known", ("child", "adult", "elder")), ("old", ("elder",)))
    recode = Recode("ages", "age", groups, overlapping=True)
    assert [layer.tolist() for layer in recode.layers(AGE)] == [[0, -1, 2, -1], [1, 1, 1, -1]]
