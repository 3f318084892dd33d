import numpy as np
import pytest

from tallyveil.errors import SchemaError
from tallyveil.schema.attribute import Attribute, Recode
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

SCHEMA = Schema(
    "small",
    (
        Attribute("sex", ("male", "female")),
        Attribute("age", ("child", "adult", "elder")),
        Attribute("home", ("house", "dormitory")),
    ),
    (
        Recode("grown", "age", (("yes", ("adult", "elder")), ("no", ("child",)))),
        Recode("voting", "age", (("adult", ("adult",)),)),
    ),
)
SPECS = (
    "total", "detailed", "sex", "grown", "voting", "home*sex", "voting*home", "grown*sex*home", "age*home",
)  # fmt: skip


def matrix(query: QueryGroup) -> np.ndarray:
    """The query as a 0/1 matrix, written out cell by cell from the labels alone."""
    groups = {recode.name: dict(recode.groups) for recode in SCHEMA.recodes}
    rows = np.zeros((query.size, SCHEMA.size), dtype=np.int64)
    for cell, codes in enumerate(SCHEMA.decode(np.arange(SCHEMA.size)).tolist()):
        levels = {a.name: a.levels[code] for a, code in zip(SCHEMA.attributes, codes, strict=True)}
        for answer in range(query.size):
            rows[answer, cell] = all(
                levels[name] == label if name in levels else levels["age"] in groups[name][label]
                for name, label in query.label(answer).items()
            )
    return rows


@pytest.mark.parametrize("spec", SPECS)
def test_every_way_to_apply_agrees_with_the_matrix(spec: str) -> None:
    query = SCHEMA.query(spec)
    dense = matrix(query)
    generator = np.random.Generator(np.random.PCG64(5))
    histogram = generator.integers(0, 20, (4, SCHEMA.size)) * generator.integers(0, 2, (4, SCHEMA.size))
    wanted = histogram @ dense.T
    assert np.array_equal(query.apply_dense(histogram), wanted)
    rows, cells = np.nonzero(histogram)
    assert np.array_equal(query.apply(rows, cells, histogram[rows, cells], 4), wanted)
    answers = generator.integers(-9, 10, (3, query.size))
    some_cells = np.array([11, 0, 5, 5])
    assert np.array_equal(query.adjoint(answers, some_cells), (answers @ dense)[:, some_cells])
    answers_of = query.answers_of(np.arange(SCHEMA.size))
    assert np.array_equal(answers_of, np.where(dense.any(axis=0), dense.argmax(axis=0), -1))
    # Many cells take another way than few.
    many = generator.integers(0, SCHEMA.size, 500)
    assert np.array_equal(query.answers_of(many), answers_of[many])
    # One record changes one answer at most.
    assert dense.sum(axis=0).max() == query.sensitivity == 1


@pytest.mark.parametrize(
    ("spec", "size", "shape"),
    [
        ("total", 1, (1, 1, 1)),
        ("detailed", 12, (2, 3, 2)),
        ("home*sex", 4, (2, 1, 2)),
        (" grown * sex", 4, (2, 2, 1)),
        ("voting", 1, (1, 1, 1)),
    ],
)
def test_sizes(spec: str, size: int, shape: tuple[int, ...]) -> None:
    query = SCHEMA.query(spec)
    assert query.name == spec
    assert (query.size, query.shape, query.n_cells) == (size, shape, 12)
    assert query.is_detailed == (spec == "detailed")


def test_labels_are_in_the_order_of_answers() -> None:
    assert SCHEMA.query("total").labels() == ["total"]
    assert SCHEMA.query("total").label(0) == {}
    query = SCHEMA.query("home*grown")
    assert query.labels() == [
        "grown=yes * home=house",
        "grown=yes * home=dormitory",
        "grown=no * home=house",
        "grown=no * home=dormitory",
    ]
    assert query.label(2) == {"grown": "no", "home": "house"}
    assert SCHEMA.query("voting").labels() == ["voting=adult"]


def test_repeated_cells_add_up() -> None:
    query = SCHEMA.query("sex")
    zeros = np.zeros(3, dtype=np.int64)
    assert query.apply(zeros, np.array([0, 0, 11]), np.array([1, 2, 4]), 1).tolist() == [[3, 4]]


def test_large_counts_are_exact() -> None:
    # 2**53 + 1 is the first integer that a double cannot hold.
    query = SCHEMA.query("total")
    rows = np.zeros(2, dtype=np.int64)
    assert query.apply(rows, np.array([0, 1]), np.array([2**53, 1]), 1)[0, 0] == 2**53 + 1


def test_no_records_give_zero_answers() -> None:
    empty = np.empty(0, dtype=np.int64)
    assert SCHEMA.query("sex").apply(empty, empty, empty, 2).tolist() == [[0, 0], [0, 0]]


def test_applying_leaves_the_histogram_alone() -> None:
    histogram = np.ones((2, 12))
    for spec in SPECS:
        answers = SCHEMA.query(spec).apply_dense(histogram)
        assert answers.dtype == np.float64
        answers[:] = 7
    assert (histogram == 1).all()


def test_misfitting_arrays_are_refused() -> None:
    query = SCHEMA.query("sex")
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    with pytest.raises(SchemaError, match="differ in length"):
        query.apply(one, two, two, 1)
    with pytest.raises(SchemaError, match="a row number lies outside"):
        query.apply(one + 1, one, one, 1)
    with pytest.raises(SchemaError, match="wanted"):
        query.apply_dense(np.zeros((1, 11)))
    with pytest.raises(SchemaError, match="wanted"):
        query.adjoint(np.zeros((1, 3)), one)
    with pytest.raises(SchemaError, match="has no answer 2"):
        query.label(2)


def test_equal_queries_are_equal_and_hash_alike() -> None:
    assert SCHEMA.query("sex") == SCHEMA.query("sex")
    assert hash(SCHEMA.query("sex")) == hash(SCHEMA.query("sex"))
    assert SCHEMA.query("grown") != SCHEMA.query("voting")
    assert SCHEMA.query("sex").factors[0] != "sex"


def test_codes_are_read_only() -> None:
    for factor in SCHEMA.query("grown*sex").factors:
        assert not factor.codes.flags.writeable
