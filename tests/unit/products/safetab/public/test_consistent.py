"""Consistent numbers: no contradiction is left, by an independent check; least squares and nearest points by others."""

from dataclasses import replace
from itertools import product

import clarabel
import numpy as np
import piqp
import polars as pl
import pytest
from scipy import sparse
from tests import toy_country as toy
from tests.oracles.safetab_contradictions import NAMES, contradictions
from tests.samples import nightly

from tallyveil.errors import ConfigError, SchemaError
from tallyveil.noise import insecure_key
from tallyveil.products.safetab.public import consistent_numbers
from tallyveil.products.safetab.public.consistent import (
    NOTHING_PUBLISHED,
    consistent_tables,
    read_published_totals,
)
from tallyveil.products.safetab.public.consistent_groups import (
    Groups,
    NationSum,
    contained_groups,
    contained_pairs,
    groups_of,
    iteration_codes,
    nation_sums,
    rules_of,
)
from tallyveil.products.safetab.public.consistent_numbers import consistent_cells, least_squares
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.regions import read_regions
from tallyveil.products.safetab.run.run import run_safetab


class Country:
    """A run of the toy country."""

    def __init__(self, folder, persons, once, **changes):
        self.params = toy.write_params(folder / "p", **changes)
        self.data = toy.write_data(folder / "d", toy.person_rows(persons))
        self.out = folder / "out"
        key = insecure_key("consistent")
        run_safetab(self.params, self.data, self.out, test_key=key, coterminous_once=once)
        self.tables = (
            pl.read_parquet(self.out / "t1-us.parquet"),
            pl.read_parquet(self.out / "t2-us.parquet"),
        )
        self.all_regions = read_regions(self.data, read_plan(self.params).config)
        self.regions = self.all_regions["US"]
        self.iterations = iteration_codes(self.params)

    def consistent(self, **options):
        """Consistent tables, and the counts of rules."""
        return consistent_tables(self.tables, self.regions, self.iterations, **options)


CASES = {
    "each region measured": (1500, False, {}),
    "shared measurements, raised to 0": (1500, True, {"allow_negative_counts": False}),
    "one state": (300, True, {"state_filter_us": ["11"]}),
}


@pytest.fixture(scope="module", params=list(CASES.values()), ids=list(CASES))
def country(request, tmp_path_factory):
    persons, once, changes = request.param
    return Country(tmp_path_factory.mktemp("consistent"), persons, once, run_pr=False, **changes)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return Country(tmp_path_factory.mktemp("plain"), 1500, False, run_pr=False)


@pytest.mark.parametrize("whole", [False, True])
def test_no_contradiction_is_left(country, whole):
    t1, t2, counts = country.consistent(whole=whole)
    assert counts["broken_before"] > 0
    assert contradictions(country.tables[0], country.tables[1], "ESTIMATE", 1e-5)
    assert contradictions(t1, t2, "CONSISTENT", 0 if whole else 1e-5) == []
    for before, after in zip(country.tables, (t1, t2), strict=True):
        assert after.select(before.columns).equals(before)
        if whole:
            assert after["CONSISTENT"].dtype == pl.Int64
            assert (after["CONSISTENT"] >= 0).all()


def test_variances_are_nowhere_larger_and_intervals_hold_both_numbers(country):
    for table in country.consistent()[:2]:
        assert (table["CONSISTENT_VARIANCE"] <= table["ESTIMATE_VARIANCE"]).all()
        assert (table["CONSISTENT_VARIANCE"] >= 0).all()
        low, high = table["CONSISTENT_LOWEST"], table["CONSISTENT_HIGHEST"]
        assert ((low <= table["CONSISTENT"]) & (table["CONSISTENT"] <= high)).all()
        assert (low <= (table["ESTIMATE"] - table["ESTIMATE_MARGIN"]).clip(0)).all()
        assert (high >= table["ESTIMATE"] + table["ESTIMATE_MARGIN"]).all()


def test_regions_with_one_measurement_have_one_number(country):
    t1 = country.consistent(whole=True)[0]
    values = {
        row[:3]: row[3]
        for row in t1.select("REGION_TYPE", "REGION_ID", "ITERATION_CODE", "CONSISTENT").rows()
    }
    shared = t1.filter(
        pl.col("SAME_AS") != "", pl.col("REGION_TYPE") == "COUNTY", pl.col("SAME_AS") == "STATE"
    )
    for region, code, value in shared.select("REGION_ID", "ITERATION_CODE", "CONSISTENT").iter_rows():
        assert value == values["STATE", region[:2], code]


def covariance(t1: pl.DataFrame, t2: pl.DataFrame) -> np.ndarray:
    """Covariance of the finest cells of one group, from its rows."""
    variance, noise = t1["ESTIMATE_VARIANCE"][0], t1["VARIANCE"].to_numpy()
    if t2.height:
        noise = t2.filter(pl.col("AGESTART") != "*")["VARIANCE"].to_numpy()
    return np.diag(noise) + (variance - noise.sum()) / noise.sum() ** 2 * np.outer(noise, noise)


@pytest.mark.parametrize("code", ["1102", "1302", "2401", "2202"])
def test_least_squares_is_that_of_dense_algebra(plain, code):
    """Values and variances of a nation and its states, by the covariance of all cells."""
    t1, t2 = (table.filter(pl.col("ITERATION_CODE") == code) for table in plain.tables)
    wide = t1.filter(pl.col("REGION_TYPE").is_in(["USA", "STATE"]))
    blocks, starts, labels = [], [], []
    for row in wide.iter_rows(named=True):
        of_group = [
            table.filter(REGION_TYPE=row["REGION_TYPE"], REGION_ID=row["REGION_ID"]) for table in (t1, t2)
        ]
        blocks.append(covariance(*of_group))
        cells = of_group[1].filter(pl.col("AGESTART") != "*")
        labels.append([("", "")] if not cells.height else cells.select("SEX", "AGESTART").rows())
        starts.append(of_group[0]["ESTIMATE"].to_list() if not cells.height else cells["ESTIMATE"].to_list())
    common = min(NAMES.index(detail) % 4 for detail in wide["DETAIL"])
    signs = [-1 if kind == "USA" else 1 for kind in wide["REGION_TYPE"]]
    keys = [(None, None)] if not common else list(product("12", toy.STARTS[common]))
    place = {key: n for n, key in enumerate(keys)}
    rows = np.zeros((len(keys), sum(map(len, starts))))
    column = 0
    for sign, of_region in zip(signs, labels, strict=True):
        for sex, age in of_region:
            at = (None, None) if not common else (sex, max(x for x in toy.STARTS[common] if x <= int(age)))
            rows[place[at], column] = sign
            column += 1
    full = np.zeros((column, column))
    edge = 0
    for block in blocks:
        full[edge : edge + len(block), edge : edge + len(block)] = block
        edge += len(block)
    gain = full @ rows.T @ np.linalg.inv(rows @ full @ rows.T)
    start = np.concatenate(starts)
    wanted, after = start - gain @ (rows @ start), full - gain @ rows @ full
    groups = groups_of(plain.tables[0], plain.tables[1], plain.regions, NOTHING_PUBLISHED)
    linear = least_squares(groups, nation_sums(groups, plain.regions))
    c1, c2, _ = plain.consistent()
    edge = 0
    for row, of_region in zip(wide.iter_rows(named=True), labels, strict=True):
        group = groups.labels.filter(
            REGION_TYPE=row["REGION_TYPE"], REGION_ID=row["REGION_ID"], ITERATION_CODE=code
        )["group"][0]
        part = slice(edge, edge + len(of_region))
        assert linear.cells[groups.span(group)] == pytest.approx(wanted[part], abs=1e-8)
        of_group = [
            c.filter(REGION_TYPE=row["REGION_TYPE"], REGION_ID=row["REGION_ID"], ITERATION_CODE=code)
            for c in (c1, c2)
        ]
        lowered = [(c["ESTIMATE_VARIANCE"] - c["CONSISTENT_VARIANCE"]).to_numpy() for c in of_group]
        change = (full - after)[part, part]
        assert lowered[0] == pytest.approx([change.sum()], abs=1e-8)
        if of_group[1].height:
            half = len(of_region) // 2
            sums = [change[:half, :half].sum(), change[half:, half:].sum(), *np.diag(change)]
            assert lowered[1] == pytest.approx(sums, abs=1e-8)
        edge += len(of_region)


def test_least_squares_by_hand():
    """A gap of 3 between a nation and two states is divided 2 : 1 : 1."""
    groups = single_cells([10.0, 4.0, 3.0], [2.0, 1.0, 1.0])
    linear = least_squares(groups, [NationSum(0, np.array([1, 2]), 0)])
    assert linear.cells == pytest.approx([8.5, 4.75, 3.75])
    assert [float(linear.reductions[n][0].covariance[0, 0]) for n in range(3)] == pytest.approx(
        [1, 0.25, 0.25]
    )


def single_cells(values, variances) -> Groups:
    """Groups with a total alone."""
    n, values, variances = len(values), np.array(values), np.array(variances)
    labels = pl.DataFrame({"group": np.arange(n)})
    empty, zeros = np.zeros(0, np.int64), np.zeros(n, np.int64)
    return Groups(
        labels,
        empty,
        empty,
        zeros,
        np.arange(n + 1),
        values,
        variances,
        values,
        variances,
        np.full(n, np.nan),
    )


# A nation and two states, with an iteration in combination, the same alone, and a detailed one of it.
NATION = [
    NationSum(0, np.array([1, 2]), 0),
    NationSum(3, np.array([4, 5]), 0),
    NationSum(6, np.array([7, 8]), 0),
]
PAIRS = np.array([[inner + region, inner - 3 + region] for inner in (3, 6) for region in range(3)])


def rows_of_nine() -> tuple[np.ndarray, np.ndarray]:
    """Equations and inequalities of the nine groups."""
    equations = np.zeros((3, 9))
    for n in range(3):
        equations[n, 3 * n : 3 * n + 3] = (-1, 1, 1)
    orders = np.zeros((len(PAIRS), 9))
    orders[np.arange(len(PAIRS)), PAIRS[:, 0]], orders[np.arange(len(PAIRS)), PAIRS[:, 1]] = 1, -1
    return equations, orders


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("whole", [False, True])
def test_the_nearest_point_is_that_of_another_solver(seed, whole):
    """Totals alone: the projection by Clarabel; whole numbers by trying all that lie next to it."""
    rng = np.random.default_rng(seed)
    values, variances = rng.normal(4, 4, 9), rng.choice([1.0, 2.0, 8.0], 9)
    equations, orders = rows_of_nine()
    groups = single_cells(values, variances)
    linear = least_squares(groups, NATION)
    bounds = np.vstack([orders, -np.eye(9)]) if whole else orders
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = 1e-11
    solution = clarabel.DefaultSolver(
        sparse.csc_matrix(np.diag(1 / variances)),
        -values / variances,
        sparse.csc_matrix(np.vstack([equations, bounds])),
        np.zeros(3 + len(bounds)),
        [clarabel.ZeroConeT(3), clarabel.NonnegativeConeT(len(bounds))],
        settings,
    ).solve()
    wanted = np.array(solution.x)
    numbers = consistent_cells(groups, rules_of(groups, NATION, PAIRS), linear.cells, whole=whole)
    if not whole:
        assert numbers == pytest.approx(wanted, abs=1e-4)
        return
    assert (equations @ numbers == 0).all()
    assert (orders @ numbers <= 0).all()
    lowest = np.floor(wanted + 1e-6).astype(int)
    states = [n for n in range(9) if n % 3]
    best = np.inf
    for ups in product((0, 1), repeat=6):
        point = np.zeros(9)
        point[states] = lowest[states] + np.array(ups)
        point[::3] = point[1::3] + point[2::3]
        near = np.isin(point[::3] - lowest[::3], (0, 1)).all()
        if near and (orders @ point <= 0).all() and (point >= 0).all():
            best = min(best, np.abs(point - wanted).sum())
    assert np.isinf(best) or np.abs(numbers - wanted).sum() <= best + 0.02


@pytest.mark.parametrize("seed", range(3))
def test_numbers_of_the_size_of_a_country(seed):
    """A hundred million people more in two iterations: each number moves as it does with ten thousand more."""
    rng = np.random.default_rng(seed)
    values, variances = rng.normal(4, 4, 9), rng.choice([1.0, 2.0, 8.0], 9)
    equations, orders = rows_of_nine()
    moved = []
    for more in (1e4, 1e8):
        shift = more * np.array([2, 1, 1, 2, 1, 1, 0, 0, 0])
        groups = single_cells(values + shift, variances)
        cells = least_squares(groups, NATION).cells
        rules = rules_of(groups, NATION, PAIRS)
        moved.append(consistent_cells(groups, rules, cells, whole=False) - shift)
        whole = consistent_cells(groups, rules, cells, whole=True)
        assert (equations @ whole == 0).all()
        assert (orders @ whole <= 0).all()
    assert moved[1] == pytest.approx(moved[0], abs=1e-5)


def test_totals_come_no_farther_from_the_truth(plain):
    """The weighted squared distance of all totals from any totals that keep the rules never grows."""
    groups = groups_of(plain.tables[0], plain.tables[1], plain.regions, NOTHING_PUBLISHED)
    sums = nation_sums(groups, plain.regions)
    rules = rules_of(groups, sums, contained_groups(groups, contained_pairs(plain.iterations)))
    linear = least_squares(groups, sums)
    totals = groups.sums(consistent_cells(groups, rules, linear.cells, whole=False))
    before = groups.sums(linear.cells)
    # Totals of other people keep the rules, too.
    for persons in (100, 3000):
        counted = toy.slow_tabulation(toy.person_rows(persons), toy.US).t1
        truth = np.zeros(len(groups.detail))
        for kind, region, code, group in groups.labels.iter_rows():
            truth[group] = counted[region, kind, code]
        after = ((totals - truth) ** 2 / groups.variance).sum()
        assert after <= ((before - truth) ** 2 / groups.variance).sum() + 1e-6


def published(path, rows):
    """Write totals that are published elsewhere; returns the path."""
    toy.pipe(path, "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT", rows)
    return path


def test_totals_agree_with_those_published_elsewhere(plain, tmp_path):
    """A tabulated iteration gets the number; one of level 0 bounds the iterations that it contains."""
    rows = [
        ("1", "USA", "1202", "1500"),
        ("01", "STATE", "0001", "700"),
        ("01001", "COUNTY", "1102", "900"),
        ("01", "STATE", "1901", "0"),
    ]
    path = published(tmp_path / "known.txt", rows)
    known = read_published_totals(path, plain.all_regions, plain.iterations)
    for whole in (False, True):
        t1, t2, _ = plain.consistent(whole=whole, published=known)
        assert contradictions(t1, t2, "CONSISTENT", 0 if whole else 1e-5) == []
        totals = {
            row[:3]: row[3]
            for row in t1.select("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "CONSISTENT").rows()
        }
        assert totals["1", "USA", "1202"] == pytest.approx(1500, abs=1e-5)
        assert totals["01001", "COUNTY", "1102"] == pytest.approx(900, abs=1e-5)
        assert totals["01", "STATE", "1901"] == pytest.approx(0, abs=1e-5)
        # Level 0 has the codes of 1101, which is alone.
        assert totals["01", "STATE", "1101"] <= 700 + 1e-5
        row = t1.filter(REGION_TYPE="USA", ITERATION_CODE="1202")
        assert row["CONSISTENT_VARIANCE"][0] == 0
        assert (t2["CONSISTENT_VARIANCE"] <= t2["ESTIMATE_VARIANCE"]).all()


@pytest.mark.parametrize(
    "rows",
    [
        [("1", "USA", "1201", "10"), ("01", "STATE", "1201", "10"), ("11", "STATE", "1201", "10")],
        [("1", "USA", "1201", "10"), ("1", "USA", "1202", "9")],
        [("1", "USA", "1201", "10"), ("01", "STATE", "1202", "3"), ("11", "STATE", "1202", "4")],
    ],
    ids=["states", "alone", "both"],
)
def test_published_totals_that_contradict_each_other(plain, tmp_path, rows):
    known = read_published_totals(published(tmp_path / "k.txt", rows), plain.all_regions, plain.iterations)
    with pytest.raises(ConfigError) as raised:
        plain.consistent(published=known)
    assert raised.value.code == "safetab-published-contradiction"


def test_published_totals_have_at_most_ten_digits(plain, tmp_path):
    path = published(tmp_path / "long.txt", [("1", "USA", "1201", "10000000000")])
    with pytest.raises(SchemaError, match="not a whole number from 0 on, of at most ten digits") as raised:
        read_published_totals(path, plain.all_regions, plain.iterations)
    assert raised.value.code == "safetab-values"


@pytest.mark.parametrize("far", [10**5, nightly(10**8)])
@pytest.mark.parametrize("whole", [False, True])
def test_published_totals_far_from_the_estimates_are_reached(plain, tmp_path, far, whole):
    rows = [("01", "STATE", "1201", str(far)), ("11", "STATE", "1202", str(2 * far))]
    path = published(tmp_path / "far.txt", rows)
    known = read_published_totals(path, plain.all_regions, plain.iterations)
    t1, t2, _ = plain.consistent(whole=whole, published=known)
    assert contradictions(t1, t2, "CONSISTENT", 0 if whole else 1e-6) == []
    totals = {
        row[:3]: row[3]
        for row in t1.select("REGION_ID", "REGION_TYPE", "ITERATION_CODE", "CONSISTENT").rows()
    }
    for region, kind, code, count in rows:
        assert totals[region, kind, code] == pytest.approx(int(count), abs=1e-6)


@pytest.mark.parametrize("far", [1e5, 1e8])
def test_the_nearest_point_grows_with_its_distance(far):
    """Rules that compare sums leave room for every multiple: a total twice as far away moves all twice as far."""
    numbers = {}
    for distance in (10.0, far):
        groups = single_cells(np.zeros(9), np.array([1.0, 2.0, 8.0] * 3))
        groups = replace(groups, known=np.array([np.nan] * 3 + [distance] + [np.nan] * 5))
        cells = least_squares(groups, NATION).cells
        numbers[distance] = consistent_cells(groups, rules_of(groups, NATION, PAIRS), cells, whole=False)
    assert numbers[far] / far == pytest.approx(numbers[10.0] / 10.0, abs=1e-5)
    assert np.count_nonzero(np.abs(numbers[far]) > far / 10) > 3


def test_where_the_solver_stops_early_it_begins_again_in_larger_units(monkeypatch):
    groups = single_cells(np.random.default_rng(2).normal(4, 4, 9), np.ones(9))
    cells, rules = least_squares(groups, NATION).cells, rules_of(groups, NATION, PAIRS)
    wanted = consistent_cells(groups, rules, cells, whole=False)
    solve, units = consistent_numbers._interior, []

    def stops_early(*given):
        units.append(given[-1])
        status, point = solve(*given)
        return (piqp.PIQP_MAX_ITER_REACHED, point + 1) if given[-1] < 10 else (status, point)

    monkeypatch.setattr(consistent_numbers, "_interior", stops_early)
    assert consistent_cells(groups, rules, cells, whole=False) == pytest.approx(wanted, abs=1e-3)
    assert units[:2] == [1.0, 10.0]


def test_where_the_solver_does_not_get_there_totals_are_not_called_a_contradiction(
    plain, tmp_path, monkeypatch
):
    """Its status does not say whether they contradict each other."""
    path = published(tmp_path / "far.txt", [("1", "USA", "1201", "1000000")])
    known = read_published_totals(path, plain.all_regions, plain.iterations)
    solve = consistent_numbers._interior
    monkeypatch.setattr(
        consistent_numbers, "_interior", lambda *given: (piqp.PIQP_MAX_ITER_REACHED, solve(*given)[1])
    )
    with pytest.raises(ConfigError, match="far from the estimates"):
        plain.consistent(published=known)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (("1", "USA", "7777", "1"), "safetab-unknown-code"),
        (("02", "STATE", "1101", "1"), "safetab-group-totals"),
        (("1", "USA", "1101", "-1"), "safetab-values"),
        (("1", "USA", "1102", "5"), "safetab-repeated"),
    ],
)
def test_published_totals_that_are_refused(plain, tmp_path, row, code):
    path = published(tmp_path / "k.txt", [("1", "USA", "1102", "5"), row])
    with pytest.raises(SchemaError) as raised:
        read_published_totals(path, plain.all_regions, plain.iterations)
    assert raised.value.code == code


def test_another_geography_is_refused(plain, tmp_path):
    """A county that is gone, and shared measurements whose regions no longer have the same blocks."""
    once = Country(tmp_path / "once", 300, True)
    rows = toy.block_rows()
    for country, changed in (
        (plain, [row for row in rows if row[:2] != rows[0][:2]]),
        (once, [(*row[:4], "99999", "9999") for row in rows]),
        (once, [*rows, ("11", "777", *rows[0][2:])]),
    ):
        toy.pipe(tmp_path / "GRF-C.txt", toy.GEOGRAPHY_HEADER, changed)
        other = read_regions(tmp_path, read_plan(country.params).config)["US"]
        with pytest.raises(SchemaError) as raised:
            consistent_tables(country.tables, other, country.iterations)
        assert raised.value.code == "safetab-other-geography"


def test_tables_without_rows(plain):
    """Everything below the state may be suppressed."""
    t1, t2, counts = consistent_tables(
        tuple(table[:0] for table in plain.tables), plain.regions, plain.iterations, whole=True
    )
    assert (t1.height, t2.height, counts) == (0, 0, {"rules": 0, "broken_before": 0})
