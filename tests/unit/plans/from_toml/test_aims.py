"""Files of aims: what they mean, and which mistakes are refused."""

from fractions import Fraction

import pytest

from tallyveil.budget.optimal.aims import Aim, Goal, Target, VarianceModel
from tallyveil.errors import BudgetError, ConfigError
from tallyveil.plans.from_toml.aims import load_aims

AIMS = """
model = "least_squares"
[[aim]]
areas = ["Town", "Block"]
queries = ["total", "age"]
weight = "3/2"
"""
TARGET = """
[[target]]
area = "Town"
query = "total"
"""


@pytest.fixture
def load(tmp_path):
    def read(text: str):
        path = tmp_path / "aims.toml"
        path.write_text(text)
        return load_aims(path)

    return read


def test_every_area_is_combined_with_every_query(load):
    found = load(AIMS)
    assert found.model is VarianceModel.LEAST_SQUARES
    assert (found.goal, found.relative, found.spare, found.entities) == (Goal.SUM, True, True, None)
    assert found.aims == tuple(
        Aim(area, query, Fraction(3, 2)) for area in ("Town", "Block") for query in ("total", "age")
    )


def test_a_half_width_is_turned_into_a_standard_deviation(load):
    found = load('model = "topdown"\nminimise = "rho"\n' + TARGET + 'within = "10"\n')
    (target,) = found.targets
    assert float(target.standard_deviation) == pytest.approx(10 / 1.959963984540054)
    plain = load('model = "topdown"\nminimise = "rho"\n' + TARGET + 'standard_deviation = "2"\n')
    assert plain.targets == (Target("Town", "total", Fraction(2)),)


def test_what_is_kept_and_where_tables_are(load, tmp_path):
    found = load('entities = "districts.parquet"\n' + AIMS + '[keep.Block]\ndetailed = "1/100"\n')
    assert found.keep == (("Block", "detailed", Fraction(1, 100)),)
    assert (found.entities, found.live) == (tmp_path / "districts.parquet", None)
    assert (
        load('live = "live.csv"\n' + AIMS.replace("least_squares", "topdown")).live == tmp_path / "live.csv"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (AIMS.replace("areas", "area"), "unknown key; did you mean 'areas'"),
        ('extra = "1"\n' + AIMS, "unknown key"),
        (AIMS.replace('"3/2"', "1.5"), "float"),
        (AIMS.replace("least_squares", "other"), "model"),
        (AIMS.replace('model = "least_squares"', ""), "is required and absent"),
        ('minimise = "average"\n' + AIMS, "minimise"),
        ('relative_to = "now"\n' + AIMS, "relative_to"),
        ("spare = 1\n" + AIMS, "spare"),
        (AIMS.replace('["total", "age"]', "[]"), "queries"),
        (AIMS + TARGET, "either standard_deviation or within"),
        (AIMS + TARGET + 'within = "1"\nstandard_deviation = "1"\n', "either standard_deviation or within"),
        *(
            (AIMS + TARGET + f'within = "1"\nconfidence = "{confidence}"\n', "a coverage above 0 and below 1")
            for confidence in ("0", "1", "1e400", "1e-400", "1e-17", "0.9999999999999999")
        ),
        (
            AIMS + TARGET + 'standard_deviation = "1"\nconfidence = "0.9"\n',
            "confidence is given without within",
        ),
    ],
)
def test_mistakes_are_named(load, text, said):
    with pytest.raises(ConfigError, match=said) as error:
        load(text)
    assert error.value.code == "bad-key-or-value"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('model = "topdown"', "there is no \\[\\[aim\\]\\]"),
        ('minimise = "rho"\n' + AIMS, "at least one \\[\\[target\\]\\]"),
        (AIMS.replace('"total", "age"', '"total", "total"'), "'total' at Block more than once"),
        (AIMS + 2 * (TARGET + 'standard_deviation = "1"\n'), "\\[\\[target\\]\\] names 'total' at Town more"),
        ('live = "live.csv"\n' + AIMS, 'Leave out live, or set model = "topdown"'),
        (AIMS.replace('"3/2"', '"0"'), "weight 0; wanted a number above 0"),
        *(
            (AIMS.replace('"3/2"', f'"{weight}"'), "wanted a number above 0, from 1e-9 to 1e9. Leave out")
            for weight in ("1e400", "1e-400", "-1e400", "1e10")
        ),
        *(
            (AIMS + TARGET + f'standard_deviation = "{size}"\n', "above 0, from 1e-9 to 1e9. A count")
            for size in ("1e400", "1e-400", "-1e400", "1e200")
        ),
        (AIMS + TARGET + 'within = "1e400"\n', "above 0, from 1e-9 to 1e9. A count"),
        (AIMS + '[keep.Block]\ntotal = "1e400"\n', "1e400 of the budget; wanted a number between"),
        (
            AIMS.replace('["total", "age"]', str([f"q{i}" for i in range(501)])),
            "1,002 aims and targets; wanted",
        ),
        (
            AIMS.replace('["total", "age"]', str([f"q{i}" for i in range(2000)])).replace(
                '["Town", "Block"]', str([f"a{i}" for i in range(2000)])
            ),
            "4,000,000 aims and targets; wanted at most 1,000",
        ),
        (
            AIMS + TARGET + 'standard_deviation = "-1"\n',
            "above 0, from 1e-9 to 1e9. A count without error is an invariant",
        ),
        (AIMS + '[keep.Block]\ntotal = "1"\n', "between 0 and 1"),
        (AIMS + '[keep.Block]\ntotal = "1/2"\n[keep.Town]\ntotal = "45/100"\n', "at most 9/10"),
    ],
)
def test_aims_that_mean_nothing_are_refused(load, text, said):
    with pytest.raises(BudgetError, match=said) as error:
        load(text)
    assert error.value.code == "bad-aim"
