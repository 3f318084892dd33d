"""The integer-subspace study: what it draws keeps every sum, and what it compares with does too."""

import sys

import numpy as np
import polars as pl
import pytest

from tallyveil.cli.main import main
from tallyveil.studies.integer_subspace.catalogue import EXHIBITS
from tallyveil.studies.integer_subspace.projection import project


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
    assert (table["least"] <= table["first_quartile"]).all()
    assert (tmp_path / "figure-5.png").stat().st_size > 10_000


def test_everything_is_meant_where_nothing_is_asked_for(study, tmp_path, monkeypatch):
    from tallyveil.studies.integer_subspace import catalogue

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
