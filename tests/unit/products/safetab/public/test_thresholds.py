"""Thresholds that follow from relative margins and public sizes, and the details that groups can expect."""

from bisect import bisect_right
from fractions import Fraction
from functools import cache

import numpy as np
import polars as pl
import pytest
from tests import toy_country as toy

from tallyveil.errors import ConfigError, SchemaError
from tallyveil.products.safetab.public.plan import read_plan
from tallyveil.products.safetab.public.thresholds import (
    expected_groups,
    read_sizes,
    sizes_worth_a_table,
    with_thresholds,
)

SHARE = Fraction(1, 2)


@pytest.fixture(scope="module", params=["zcdp", "puredp"])
def plan(request, tmp_path_factory):
    zero = {f"privacy_budget_p_level_{n}_{g}": 0 for n in (1, 2) for g in ("usa", "tract", "place", "aiannh")}
    folder = tmp_path_factory.mktemp("params")
    return read_plan(toy.write_params(folder / "p", run_pr=False, privacy_defn=request.param, **zero))


def sizes_around(plan, level_set):
    """Sizes that are more often below the smallest size that is worth a table than above it."""
    worth = sizes_worth_a_table(level_set, SHARE)
    rng = np.random.default_rng(5)
    return np.concatenate([rng.integers(max(size - 40, 0), size, 60) for size in worth] + [np.array(worth)])


@cache
def below(law, bound):
    """P(noise < bound), from the certified tail."""
    return float(law.cdf(bound - 1).mid())


def test_a_table_is_worth_its_noise_from_the_size_whose_mean_cell_has_the_margin(plan):
    for level_set in plan.runs[0].sets:
        margin = level_set.stage_2.margin(Fraction(19, 20))
        worth = sizes_worth_a_table(level_set, SHARE)
        for size, cells in zip(worth, (8, 18, 46), strict=True):
            assert margin <= SHARE * Fraction(size, cells)
            assert margin > SHARE * Fraction(size - 1, cells)


def test_without_sizes_thresholds_are_at_the_sizes_that_are_worth_a_table(plan):
    changed = with_thresholds(plan, SHARE, {})
    for old, new in zip(plan.runs[0].sets, changed.runs[0].sets, strict=True):
        assert new.thresholds == sizes_worth_a_table(old, SHARE)
        assert new.budget == old.budget


def test_thresholds_leave_the_fewest_groups_on_the_wrong_side(plan):
    """All thresholds near the size are tried, with chances from the certified tails."""
    level_set = plan.runs[0].sets[0]
    sizes = sizes_around(plan, level_set)
    (changed,) = (
        one
        for one in with_thresholds(plan, SHARE, {("STATE", 1): sizes}).runs[0].sets
        if one.name == level_set.name
    )
    worth = sizes_worth_a_table(level_set, SHARE)
    for threshold, size in zip(changed.thresholds, worth, strict=True):
        assert threshold > size  # More groups are smaller.

        def wrong(bound, size=size):
            chances = {n: below(level_set.stage_1, bound - n) for n in set(sizes.tolist())}
            return sum(chances[n] if n >= size else 1 - chances[n] for n in sizes.tolist())

        reach = level_set.stage_1.margin(Fraction(19, 20))
        least = min(wrong(bound) for bound in range(max(size - reach, 1), size + reach + 1))
        assert wrong(threshold) == pytest.approx(least, abs=1e-9)


def test_expected_groups_are_those_of_a_simulation(plan):
    level_set = plan.runs[0].sets[0]
    sizes = sizes_around(plan, level_set)
    of_all = {(one.geography, one.level): np.zeros(0, np.int64) for one in plan.runs[0].sets}
    changed = with_thresholds(plan, SHARE, {})
    rows = expected_groups(changed, of_all | {("STATE", 1): sizes}, SHARE)
    assert {(row["geography"], row["level"]) for row in rows} == {("STATE", 1)}
    assert sum(row["groups"] for row in rows) == len(sizes)
    thresholds = changed.runs[0].sets[0].thresholds
    worth = sizes_worth_a_table(level_set, SHARE)
    # Draws by the certified quantiles of the law.
    reach = 6 * level_set.stage_1.margin(Fraction(19, 20))
    cumulative = np.array([below(level_set.stage_1, bound + 1) for bound in range(-reach, reach + 1)])
    runs = 400
    uniform = np.random.default_rng(8).random((runs, len(sizes)))
    noisy = sizes + np.searchsorted(cumulative, uniform) - reach
    details = np.searchsorted(np.array(thresholds), noisy, side="right")
    for detail in range(4):
        wanted = sum(row["details"][detail] for row in rows)
        assert (details == detail).sum() / runs == pytest.approx(
            wanted, abs=5 * (len(sizes) / 4 / runs) ** 0.5
        )
    right = np.array([bisect_right(worth, size) for size in sizes])
    misplaced = sum(row["misplaced"] for row in rows)
    assert (details != right).sum() / runs == pytest.approx(misplaced, abs=5 * (len(sizes) / 4 / runs) ** 0.5)


@pytest.mark.parametrize("share", [0, Fraction(-1, 10), 10**7])
def test_a_relative_margin_is_above_0(plan, share):
    with pytest.raises(ConfigError, match="--relative-margin"):
        with_thresholds(plan, Fraction(share), {})


def sizes_file(path, rows):
    toy.pipe(path, "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT", rows)
    return path


def test_sizes_are_those_of_groups_with_adaptive_detail(plan, tmp_path):
    path = sizes_file(
        tmp_path / "t1.txt",
        [
            ("01", "STATE", "1101", "12"),
            ("11", "STATE", "1101", "-3"),
            ("1", "USA", "1101", "7"),
            ("01001", "COUNTY", "1101", "5"),
        ],
    )
    sizes = read_sizes(path, plan)
    assert sorted(sizes["STATE", 1].tolist()) == [0, 12]
    assert sizes["COUNTY", 1].tolist() == [5]
    assert ("USA", 1) not in sizes
    (row,) = [row for row in expected_groups(plan, sizes, None) if row["size"] == "10-99"]
    assert row["groups"] == 1
    assert sum(row["details"]) == pytest.approx(1)
    assert "misplaced" not in row


@pytest.mark.parametrize(
    ("row", "code"),
    [
        (("01", "STATE", "7777", "1"), "safetab-unknown-code"),
        (("01", "STATE", "1101", "5"), "safetab-repeated"),
        (("11", "STATE", "1101", "1234567890"), "safetab-values"),
    ],
)
def test_sizes_that_are_refused(plan, tmp_path, row, code):
    path = sizes_file(tmp_path / "t1.txt", [("01", "STATE", "1101", "5"), row])
    with pytest.raises(SchemaError) as raised:
        read_sizes(path, plan)
    assert raised.value.code == code


def test_a_file_in_parquet_is_read_too(plan, tmp_path):
    frame = pl.DataFrame(
        {"REGION_ID": ["01"], "REGION_TYPE": ["STATE"], "ITERATION_CODE": ["1101"], "COUNT": ["4"]}
    )
    frame.write_parquet(tmp_path / "t1.parquet")
    assert read_sizes(tmp_path / "t1.parquet", plan)["STATE", 1].tolist() == [4]
