"""The integer-subspace study: what it draws keeps every sum, and what it compares with does too."""

import math
import sys
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from tallyveil.accounting import Neighbours, compose
from tallyveil.accounting.events import IntegerSubspaceLaplace
from tallyveil.cli.main import main
from tallyveil.subspace.lattice import lattice_of
from tallyveil.subspace.mechanisms import GeneralisedLaplace, Norm
from tallyveil_studies.integer_subspace.catalogue import EXHIBITS
from tallyveil_studies.integer_subspace.examples import EXAMPLES, example_with_parameters, with_parameters
from tallyveil_studies.integer_subspace.noise import project


@pytest.fixture
def study(monkeypatch, capsys):
    def run(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tallyveil", "study", "integer-subspace", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out + said.err

    return run


def test_noise_tables_keep_their_margins(study, tmp_path):
    code, _ = study("--table", 1, "--table", 3, "--out", tmp_path, "-q")
    assert code == 0
    for name in ("table-1", "table-3"):
        table = pl.read_csv(tmp_path / f"{name}.csv").drop("county").to_numpy()
        assert not table[-1].any()
        assert not table[:, -1].any()
        assert table[:4, :4].any()


def test_boxes_are_drawn(study, tmp_path):
    code, _ = study("--figure", 5, "--out", tmp_path, "-q", "--plots", "png")
    assert code == 0
    table = pl.read_csv(tmp_path / "figure-5.csv")
    assert table.height == 28
    assert set(table["epsilon_per_unit"]) == {0.25}
    assert table["epsilon_at_1e-10"].null_count() == 0
    assert (table["least"] <= table["first_quartile"]).all()
    assert (tmp_path / "figure-5.png").stat().st_size > 10_000


def test_everything_is_meant_where_nothing_is_asked_for(study, tmp_path, monkeypatch):
    from tallyveil_studies.integer_subspace import catalogue

    few = tuple(exhibit for exhibit in EXHIBITS if exhibit.name in ("table-1", "figure-2"))
    monkeypatch.setattr(catalogue, "EXHIBITS", few)
    code, text = study("--out", tmp_path)
    assert code == 0
    assert "skipped" in text  # the populations are not at hand
    assert (tmp_path / "table-1.csv").exists()


def test_projection_is_the_nearest_whole_vector_with_the_sum():
    """By listing: no whole vector that sums to zero is nearer to the centred noise in l1."""
    rng = np.random.default_rng(1)
    grid = np.stack(np.meshgrid(*[np.arange(-9, 10)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    grid = np.column_stack([grid, -grid.sum(axis=1)])
    noise = rng.integers(-4, 5, (40, 3))
    found = project(noise, rng.random(noise.shape))
    assert not found.sum(axis=1).any()
    for z, ours in zip(noise, found, strict=True):
        centred = z - z.mean()
        assert np.abs(ours - centred).sum() == pytest.approx(np.abs(grid - centred).sum(axis=1).min())


def test_projection_favours_no_cell():
    rng = np.random.default_rng(2)
    noise = rng.integers(-4, 5, (20_000, 5))
    found = project(noise, rng.random(noise.shape))
    assert np.abs(found.mean(axis=0)).max() < 5 * found.std() / np.sqrt(len(found))
    fixed = project(noise, np.broadcast_to(np.arange(5), noise.shape))
    assert np.abs(fixed.mean(axis=0)).max() > 20 * found.std() / np.sqrt(len(found))


COUNTIES = """fips,name,pop
17001,Adams,900
17003,Alexander,40
17005,Bond,0
11001,District,7
10001,Kent,60
10003,New Castle,5
"""


@pytest.fixture
def counties(tmp_path):
    (tmp_path / "vtd").mkdir()
    (tmp_path / "vtd" / "us_2010_county_pop_hu.csv").write_text(COUNTIES)
    return tmp_path


def test_every_state_with_counties_has_noise_that_keeps_its_total(study, counties, tmp_path):
    code, said = study("--figure", 8, "--out", tmp_path / "out", "--data", counties)
    assert code == 0
    assert "2 States" in said
    states = pl.read_csv(tmp_path / "out" / "figure-8-states.csv", schema_overrides={"state": pl.String})
    assert states["state"].to_list() == ["10", "17"]
    assert states["negative_draws"].min() > 10  # of the small ones
    cells = pl.read_csv(tmp_path / "out" / "figure-8.csv", schema_overrides={"state": pl.String})
    assert cells.filter(state="17")["cell"].to_list() == ["Bond", "Alexander", "Adams"]
    assert set(cells.group_by("state").agg(pl.col("one_draw").sum())["one_draw"]) == {0}


@pytest.mark.nightly
def test_tables_without_negative_counts_are_biased_by_size(study, counties, tmp_path, monkeypatch):
    from tallyveil_studies.integer_subspace import noise as nonnegative

    monkeypatch.setattr(nonnegative, "NEAREST_DRAWS", 300)
    monkeypatch.setattr(nonnegative, "RESTRICTED_DRAWS", 2)
    monkeypatch.setattr(nonnegative, "illinois_populations", lambda _: pl.DataFrame({"pop": [10**6] * 102}))
    code, said = study("--figure", 9, "--out", tmp_path / "out", "--data", counties)
    assert code == 0
    assert "0 of 1,000 draws were changed" in " ".join(said.split())
    table = pl.read_csv(tmp_path / "out" / "figure-9.csv")
    epsilons = dict(table.select("outputs", "epsilon_at_1e-11").unique().iter_rows())
    assert epsilons["restricted, same law"] == pytest.approx(1.0)  # 2 * epsilon 1/4, at distance 2
    for same in ("free", "nonnegative", "restricted, same cost"):
        assert epsilons[same] == pytest.approx(0.5)
    nearest = table.filter(outputs="nonnegative")["bias"].to_list()
    assert nearest[0] > 1
    assert nearest[-1] < -0.4
    assert sum(table.filter(outputs="restricted, same cost")["bias"]) == pytest.approx(0, abs=1e-9)


def test_sums_that_cross_and_tables_of_0_and_1_have_three_outputs_at_one_cost(study, tmp_path, monkeypatch):
    from tallyveil_studies.integer_subspace import polytopes

    crossing, _, binary, _, _ = polytopes.examples()
    monkeypatch.setattr(polytopes, "POLYTOPE_DRAWS", 3)
    monkeypatch.setattr(polytopes, "examples", lambda: (crossing, binary))
    code, said = study("--beyond", "polytopes", "--out", tmp_path / "out")
    assert code == 0, said
    table = pl.read_csv(tmp_path / "out" / "polytopes.csv")
    assert table["outputs"].to_list() == ["free", "nonnegative", "restricted"] * 2
    assert table.group_by("table").agg(pl.col("epsilon_at_1e-10").n_unique())[
        "epsilon_at_1e-10"
    ].to_list() == [1, 1]
    assert table.filter(pl.col("outputs") != "free")["negative_cells"].to_list() == [0] * 4
    assert table["steps"].to_list()[:3] == [None, None, 10_772]


def test_the_parameters_are_those_of_the_nearest_tables():
    row = pl.DataFrame({"noise": ["one"]})
    l1 = example_with_parameters(row, "children", Norm.L1).row(0, named=True)
    assert l1["protected_distance"] == 4  # two rows and two columns change by one each
    assert 0.99998 < l1["epsilon_at_1e-5"] < l1["epsilon_at_1e-10"] < l1["epsilon_at_1e-11"] <= 1.0
    l2 = example_with_parameters(row, "intersecting", Norm.L2).row(0, named=True)
    assert 0 <= l2["protected_distance"] - math.sqrt(2) < 1e-9
    assert l2["epsilon_at_1e-10"] <= 0.25 * l2["protected_distance"]
    assert l2["mu"] is None  # the law's tail is cut, at a total variation of 2**-62


def test_a_total_variation_costs_delta_and_power():
    law, lattice = GeneralisedLaplace(Norm.L1, Fraction(1)), lattice_of(EXAMPLES["Illinois"]().system)
    exact, near = (
        with_parameters(pl.DataFrame({"noise": ["one"]}), law, lattice, t).row(0, named=True)
        for t in (Fraction(0), Fraction(1, 10**12))
    )
    # Within 1e-12 of the law, delta 1e-11 leaves (1 - (1 + exp(2)) / 10) * 1e-11 for the law itself.
    left = Fraction("1e-11") - Fraction(1 + math.exp(2)) / 10**12
    event = IntegerSubspaceLaplace(1, "l1", 2)
    wanted = compose(event, neighbours=Neighbours.BOUNDED).epsilon(left).upper
    assert near["epsilon_at_1e-11"] == pytest.approx(wanted, rel=1e-12)
    assert exact["epsilon_at_1e-11"] < near["epsilon_at_1e-11"] <= 2
    assert near["beta_at_alpha_0.05"] < exact["beta_at_alpha_0.05"]


def test_scale_reduction_falls_with_the_iterations(study, tmp_path, monkeypatch):
    from tallyveil_studies.integer_subspace import convergence

    monkeypatch.setattr(convergence, "ITERATIONS", 20_000)
    monkeypatch.setattr(convergence, "THIN", 50)
    code, _ = study("--beyond", "scale-reduction", "--out", tmp_path, "-q")
    assert code == 0
    table = pl.read_csv(tmp_path / "scale-reduction.csv")
    assert table["iterations"].to_list() == [2000, 5000, 10_000, 20_000]
    assert table["median"][-1] < table["median"][0]


def test_the_paper_s_jumps_are_those_of_its_appendix():
    from tallyveil_studies.integer_subspace.convergence import PAPER, _plan

    plan = _plan("children", Norm.L2, PAPER)
    assert plan.moves.at_once is None
    assert set(plan.moves.scales) == {0.5}  # a = exp(-1 / scale) = exp(-2)
