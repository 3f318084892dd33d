import dataclasses

import numpy as np
import pytest

from tallyveil.errors import SchemaError
from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.presets import load_preset
from tallyveil.schema.schema import Schema

SEX = Attribute("sex", ("male", "female"))
AGE = Attribute("age", ("child", "adult", "elder"))
HOME = Attribute("home", ("house", "dormitory"))
GROWN = Recode("grown", "age", (("yes", ("adult", "elder")), ("no", ("child",))))
NO_CHILD_IN_DORMITORY = StructuralZero(
    "no_child_in_dormitory", (("age", ("child",)), ("home", ("dormitory",)))
)


def small() -> Schema:
    return Schema("small", (SEX, AGE, HOME), (GROWN,), (NO_CHILD_IN_DORMITORY,))


def test_cells_are_numbered_in_c_order() -> None:
    schema = small()
    assert schema.shape == (2, 3, 2)
    assert schema.size == 12
    codes = np.stack(np.unravel_index(np.arange(12), (2, 3, 2)), axis=1)
    assert np.array_equal(schema.encode(codes), np.arange(12))
    assert np.array_equal(schema.decode(np.arange(12)), codes)


def test_no_records_have_no_cells() -> None:
    schema = small()
    assert schema.encode(np.empty((0, 3), dtype=np.int64)).shape == (0,)
    assert schema.decode(np.empty(0, dtype=np.int64)).shape == (0, 3)
    assert schema.possible(np.empty(0, dtype=np.int64)).shape == (0,)


def test_cell_labels_name_every_level() -> None:
    schema = small()
    assert schema.cell_labels([0, 11]) == [
        "sex=male * age=child * home=house",
        "sex=female * age=elder * home=dormitory",
    ]
    assert schema.cell_labels(np.arange(12)) == schema.query("detailed").labels()


def test_message_about_a_bad_cell_does_not_show_it() -> None:
    with pytest.raises(SchemaError) as caught:
        small().decode([987654])
    assert "987654" not in str(caught.value)


def test_structural_zero_is_a_product_of_level_sets() -> None:
    schema = small()
    possible = schema.possible(np.arange(schema.size))
    impossible = [cell for cell in range(12) if not possible[cell]]
    assert schema.cell_labels(impossible) == [
        "sex=male * age=child * home=dormitory",
        "sex=female * age=child * home=dormitory",
    ]


def test_structural_zeros_add_up() -> None:
    no_elder_man = StructuralZero("no_elder_man", (("sex", ("male",)), ("age", ("elder",))))
    schema = dataclasses.replace(small(), structural_zeros=(NO_CHILD_IN_DORMITORY, no_elder_man))
    assert schema.possible(np.arange(12)).sum() == 12 - 2 - 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes": ()}, "at least one"),
        ({"attributes": (SEX, SEX)}, "'sex' is given twice"),
        ({"recodes": (GROWN, GROWN)}, "'grown' is given twice"),
        ({"recodes": (Recode("age", "age", (("a", ("adult",)),)),)}, "'age' is given twice"),
        (
            {"recodes": (Recode("r", "aeg", (("a", ("adult",)),)),)},
            "recode 'r': there is no attribute 'aeg'.*'age'",
        ),
        ({"recodes": (Recode("r", "age", (("a", ("adlt",)),)),)}, "no level 'adlt'.*'adult'"),
        (
            {"structural_zeros": (StructuralZero("z", (("aeg", ("child",)),)),)},
            "zero 'z': there is no attribute 'aeg'",
        ),
        ({"structural_zeros": (StructuralZero("z", (("age", ("chid",)),)),)}, "zero 'z'.*no level 'chid'"),
        ({"structural_zeros": (NO_CHILD_IN_DORMITORY,) * 2}, "is given twice"),
        ({"attributes": tuple(Attribute(f"a{i}", ("x", "y")) for i in range(63)), "recodes": ()}, r"2\*\*62"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        dataclasses.replace(small(), **change)


@pytest.mark.parametrize(
    "asked",
    [
        lambda schema, name: schema.query(name),
        lambda schema, name: schema.query(f"age*{name}"),
        lambda schema, name: schema.attribute(name),
        lambda schema, name: schema.attribute("age").code(name),
        lambda schema, name: dataclasses.replace(
            schema, structural_zeros=(StructuralZero("none", (("age", (name,)),)),)
        ),
    ],
)
def test_an_unknown_name_of_any_length_leaves_the_message_short(asked) -> None:
    with pytest.raises(SchemaError, match=r"x\.\.\.'") as caught:
        asked(small(), "x" * 100_000)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", ["pl94-persons", "race-age", "dhc-persons"])
def test_possible_cells_are_counted(name: str) -> None:
    schema = load_preset(name)
    assert schema.n_possible() == np.count_nonzero(schema.possible(np.arange(schema.size)))


def test_possible_cells_of_a_schema_without_zeros_and_of_one_without_possible_cells() -> None:
    attributes = (Attribute("a", ("x", "y")), Attribute("b", ("u", "v", "w")))
    assert Schema("all", attributes).n_possible() == 6
    never = tuple(StructuralZero(level, (("a", (level,)),)) for level in ("x", "y"))
    assert Schema("none", attributes, (), never).n_possible() == 0


def test_digest_sees_every_part() -> None:
    schema = small()
    assert schema.digest() == small().digest()
    assert len(schema.digest()) == 32
    others = [
        dataclasses.replace(schema, name="other"),
        dataclasses.replace(schema, attributes=(AGE, SEX, HOME)),
        dataclasses.replace(schema, recodes=()),
        dataclasses.replace(schema, structural_zeros=()),
        dataclasses.replace(schema, attributes=(SEX, AGE, Attribute("home", ("dormitory", "house")))),
    ]
    assert len({schema.digest(), *(other.digest() for other in others)}) == 1 + len(others)


def test_large_schema_is_handled_without_dense_work() -> None:
    # As many cells as the largest production schema, asked at a few of them only.
    attributes = tuple(
        Attribute(n, tuple(map(str, range(k)))) for n, k in (("a", 522), ("b", 1008), ("c", 3))
    )
    schema = Schema("large", attributes, (), (StructuralZero("z", (("a", ("7",)), ("c", ("0", "2")))),))
    assert schema.size == 1_578_528
    cells = schema.encode([[7, 1007, 0], [7, 0, 1], [521, 1007, 2]])
    assert schema.possible(cells).tolist() == [False, True, True]
    assert schema.query("c*a").answers_of(cells).tolist() == [7 * 3, 7 * 3 + 1, 522 * 3 - 1]
