"""Exact counts and bounds of the files."""

import polars as pl
import pytest

from tallyveil.errors import ConstraintError, SchemaError
from tallyveil.measurements.layouts.described.answers import (
    lacking_totals,
    read_bounds,
    read_exact,
    read_totals_file,
    require_known_constraints,
    require_root_total,
)
from tallyveil.measurements.layouts.described.source import SourceFiles
from tallyveil.measurements.layouts.described.spine import SourceSpine, read_spine
from tallyveil.schema.counts import NO_LIMIT

from .conftest import PERSONS, UNITS, find_files, write_table
from .test_spine import PLAIN, prefixes

QUERY = PERSONS.schema.query("hhgq")
TOTAL = PERSONS.schema.query("total")
EXACT, LOWER, UPPER, _ = PERSONS.form.constraints
ZERO = {"query_name": "nurse_nva_0_con", "value": [0], "sign": "="}


def bounds(code, lower, upper):
    return [
        {"geocode": code, "query_name": "hhgq_total_lb_con", "value": lower, "sign": ">="},
        {"geocode": code, "query_name": "hhgq_total_ub_con", "value": upper, "sign": "<="},
    ]


def make(root, change=None):
    """Three blocks; the second has two facilities of type 3, and the others have households alone."""
    lower = {code: [0] * 8 for code in PLAIN}
    lower[PLAIN[1]][3] = 2
    upper = {code: [2**32] + [0] * 7 for code in PLAIN}
    upper[PLAIN[1]][3] = 99_999 * 2
    for name, codes in prefixes(PLAIN).items():
        rows = []
        for code in codes:
            own = [block for block in PLAIN if block.startswith(code)]
            sums = ([min(2**32, sum(one[b][i] for b in own)) for i in range(8)] for one in (lower, upper))
            rows += [*bounds(code, *sums), {"geocode": code, **ZERO}]
        if name == "State":
            rows.append({"geocode": "44", "query_name": "total_con", "value": [90], "sign": "="})
        if change is not None:
            rows = change(name, rows)
        write_table(root, name, "Constraint", rows)
        write_table(
            root, name, "DPQuery", [{"geocode": c, "query_name": "total_dpq", "value": [1]} for c in codes]
        )
    files = find_files(root, PERSONS)
    return files, read_spine(files)


def bounds_in(files: SourceFiles, spine: SourceSpine):
    return read_bounds(files, spine, spine.spine.finest, QUERY, [LOWER, UPPER])


def test_bounds_of_blocks(tmp_path):
    files, spine = make(tmp_path)
    require_known_constraints(files, spine)
    lower, upper = bounds_in(files, spine)
    assert lower.tolist() == [[0] * 8, [0, 0, 0, 2, 0, 0, 0, 0], [0] * 8]
    assert upper[:, 0].tolist() == [NO_LIMIT] * 3
    assert upper[:, 3].tolist() == [0, 199_998, 0]
    exact = read_exact(files, spine, 0, TOTAL, EXACT)
    assert exact.tolist() == [[90]]
    require_root_total(files, spine, TOTAL, EXACT, exact)
    with pytest.raises(ConstraintError, match=r"add up to 91, and that of State .* is 90") as caught:
        require_root_total(files, spine, TOTAL, EXACT, exact + 1)
    assert caught.value.code == "layout-totals"


def first_of(geolevel, **values):
    def change(name, rows):
        return [rows[0] | values, *rows[1:]] if name == geolevel else rows

    return change


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (first_of("Block", value=[0, 0, 0, 0, 0, 0, 0]), "layout-rows", "does not have 8 whole numbers"),
        (
            first_of("Block", value=[0, 0, 0, 0, 0, 0, 0, None]),
            "layout-rows",
            "does not have 8 whole numbers",
        ),
        (first_of("Block", value=[0, 0, 0, 0, 0, 0, 0, -1]), "layout-rows", "negative number"),
        (first_of("Block", sign="="), "layout-rows", "has the sign '='"),
        (first_of("Block", value=[0, 0, 0, 9, 0, 0, 0, 0]), "bounds-crossed", "above its upper bound"),
        (
            first_of("Block", value=[2**62] * 8),
            "layout-rows",
            "more than any count",
        ),  # their sum is 0 in 64 bits
        (lambda name, rows: rows[1:] if name == "Block" else rows, "layout-rows", "not once"),
        (lambda name, rows: [*rows, rows[0]] if name == "Block" else rows, "layout-rows", "not once"),
        (first_of("Tract", value=[0, 0, 0, 3, 0, 0, 0, 0]), "layout-totals", "Geounits of Block are missing"),
    ],
)
def test_what_is_no_bound_is_refused(tmp_path, change, code, said):
    files, spine = make(tmp_path, change)
    with pytest.raises((SchemaError, ConstraintError), match=said) as caught:
        bounds_in(files, spine)
    assert caught.value.code == code


def test_bounds_of_states_may_be_narrower_than_sums(tmp_path):
    files, spine = make(tmp_path, first_of("State", value=[1, 0, 0, 3, 0, 0, 0, 0]))
    assert bounds_in(files, spine)[0].sum() == 2


@pytest.mark.parametrize("zero", [{"value": [1]}, {"sign": "<="}])
def test_a_structural_zero_that_is_none(tmp_path, zero):
    def change(name, rows):
        return [*rows[:-1], rows[-1] | zero] if name == "Block" else rows

    files, spine = make(tmp_path, change)
    with pytest.raises(SchemaError, match="says something else than that a count is 0"):
        require_known_constraints(files, spine)


def test_constraints_of_another_product(tmp_path):
    _, spine = make(tmp_path)
    with pytest.raises(SchemaError, match="has the constraint 'hhgq_total_lb_con'"):
        require_known_constraints(find_files(tmp_path, UNITS), spine)


def totals(tmp_path, **columns):
    path = tmp_path / "totals.parquet"
    pl.DataFrame(columns).write_parquet(path)
    return path


CODES = pl.Series(["44", "45"])


def test_totals_beside_the_files(tmp_path):
    path = totals(tmp_path, geocode=["45", "46", "44"], count=[5, 6, 4])
    assert read_totals_file(path, CODES, "State").tolist() == [[4], [5]]
    (tmp_path / "totals.csv").write_text("geocode,count\n44,4\n45,5\n")
    assert read_totals_file(tmp_path / "totals.csv", CODES, "State").tolist() == [[4], [5]]


@pytest.mark.parametrize(
    ("codes", "counts", "said"),
    [
        (["44"], [4], "no total of State '45'"),
        (["44", "45", "45"], [4, 5, 5], "two totals of one State"),
        (["44", "45"], [4, None], "no whole number"),
        (["44", "45"], [4, -1], "no whole number"),
        (["44", "45"], ["4", "many"], "no whole number"),
        (["44", "45"], [4.0, 1.5], "no whole number"),
        (["44", "45"], [4.0, float("nan")], "no whole number"),
        (["44", "45"], [1, 2**32], "add up to more than"),
    ],
)
def test_totals_that_are_wrong(tmp_path, codes, counts, said):
    with pytest.raises(ConstraintError, match=said) as caught:
        read_totals_file(totals(tmp_path, geocode=codes, count=counts), CODES, "State")
    assert caught.value.code == "layout-totals"


def test_totals_that_are_not_given(tmp_path):
    files, _ = make(tmp_path)
    assert "--totals FILE" in str(lacking_totals(files, "total", "State"))
