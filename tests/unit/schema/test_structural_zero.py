import pytest

from tallyveil.errors import SchemaError
from tallyveil.schema.attribute import StructuralZero


@pytest.mark.parametrize(
    ("name", "levels", "message"),
    [
        ("", (("age", ("child",)),), "non-empty"),
        ("z", (), "at least one"),
        ("z", (("age", ()),), "at least one"),
        ("z", (("age", ("child",)), ("age", ("adult",))), "'age' is given twice"),
    ],
)
def test_bad_zeros_are_refused(
    name: str, levels: tuple[tuple[str, tuple[str, ...]], ...], message: str
) -> None:
    with pytest.raises(SchemaError, match=message):
        StructuralZero(name, levels)
