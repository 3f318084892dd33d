"""True counts of population groups: the ledger knows first, and what comes out is the truth."""

import numpy as np
import pytest

from tallyveil.accounting.ledger.file import read_ledger
from tallyveil.errors import BudgetError, StoreError
from tallyveil.products.safetab.confidential.declassify import (
    declassify_groups,
    declassify_households,
    exact_group_measurer,
    exact_household_measurer,
)
from tallyveil.products.safetab.public.ages import STARTS_23


def entries(tmp_path):
    return read_ledger(tmp_path / "ledger.jsonl")[1]


def test_exact_measurers_are_made_after_the_entry(safetab, safetab_h, ledger, tmp_path):
    makers = (
        lambda run: exact_group_measurer(
            safetab.people[run], safetab.regions[run], ledger=ledger, reason="p"
        ),
        lambda run: exact_household_measurer(
            safetab_h.homes[run], safetab_h.regions[run], ledger=ledger, reason="h"
        ),
    )
    for make in makers:
        for run in ("US", "PR"):
            make(run)
    assert [entry.event.reason for entry in entries(tmp_path)] == ["p", "p", "h", "h"]
    ledger.close()
    for make in makers:
        with pytest.raises((BudgetError, StoreError, ValueError)):
            make("US")


def test_true_groups_are_those_counted_by_hand(safetab, ledger, tmp_path):
    counted = 0
    for run in safetab.plan.runs:
        regions = safetab.regions[run.run]
        pairs = declassify_groups(
            safetab.people[run.run], regions, run.sets, ledger=ledger, reason="evaluation"
        )
        assert entries(tmp_path)[-1].kind == "declassify"  # before the first group is counted
        for one, groups in pairs:
            names = regions.names(one.geography)
            found = {
                (names[int(region)], one.geography, one.view.codes[int(iteration)]): int(total)
                for region, iteration, total in zip(
                    groups.regions, groups.iterations, groups.totals, strict=True
                )
            }
            assert len(found) == len(groups.totals)
            wanted = {
                group: n for group, n in safetab.truth.t1.items()
                if group[1] == one.geography and group[2] in one.view.codes
            }  # fmt: skip
            assert {group: n for group, n in found.items() if n} == wanted
            adaptive = groups.iterations < one.view.n_adaptive
            for region, iteration, cells in zip(
                groups.regions[adaptive], groups.iterations[adaptive], groups.cells[adaptive], strict=True
            ):
                group = names[int(region)], one.geography, one.view.codes[int(iteration)]
                assert cells.tolist() == finest_cells(safetab.truth.people[group])
            assert not groups.cells[~adaptive].any()
            assert groups.cells.dtype == np.int32
            counted += len(wanted)
    assert counted > 100
    assert len(entries(tmp_path)) == len(safetab.plan.runs)


def finest_cells(people):
    """Sex by 23 age groups."""
    cells = [0] * 46
    for (sex, age), n in people.items():
        cells[23 * (int(sex) - 1) + sum(start <= age for start in STARTS_23) - 1] += n
    return cells


def test_true_households_are_counted_after_the_entry(safetab_h, every_group, ledger, tmp_path):
    run = safetab_h.plan.runs[0]
    regions = safetab_h.regions[run.run]
    groups = [(one, every_group(one, regions)) for one in run.sets[:3]]
    made = declassify_households(
        safetab_h.homes[run.run], regions, groups, ledger=ledger, reason="evaluation"
    )
    assert len(entries(tmp_path)) == 1
    for one, own, cells in made:
        names = regions.names(one.geography)
        for number, values in enumerate(cells):
            for place, row in zip(np.flatnonzero(own.detail == number), values, strict=True):
                group = names[int(own.regions[place])], one.geography, one.view.codes[own.iterations[place]]
                assert row.sum() == sum(safetab_h.truth.get(group, {}).values())
