"""Counts of a small release, fitted to own values and to the tree, are pinned: they may change only on purpose."""

import pytest

from tallyveil.files.histograms import read_histogram
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run.inputs import read_spine
from tallyveil.products.topdown.run.run import run_release

OWN = '[estimation]\nvalues = "own"\n\n[estimation.passes]'
TOWNS = {
    "own": "82 50 13 53 69 92 66 118 98 9 49 86 44 92 105 49 30 89 105 107 54 87 72 22 82 67 50 86",
    "tree": "80 52 12 51 69 92 67 114 97 11 48 90 45 93 109 47 31 87 102 107 55 83 72 24 82 69 52 85",
}
"""Counts of the cells that are not zero, town by town."""


@pytest.mark.parametrize("values", ["own", "tree"])
def test_pinned_towns(small_release, edit, tmp_path, values):
    """The file without the key has values of the tree."""
    plan = load_plan(edit("[estimation.passes]", OWN) if values == "own" else small_release)
    out = run_release(plan, tmp_path / "out", test_key=insecure_key("golden towns")).path
    found = read_histogram(out, "Town", plan.schema, read_spine(plan.geography))
    assert found.counts.tolist() == [int(count) for count in TOWNS[values].split()]
