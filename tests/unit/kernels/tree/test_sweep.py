"""The sweeps' kernels against their twins."""

import numpy as np
import pytest
from tests.oracles.sweep import (
    add_measured_reference,
    add_products_reference,
    answer_rows_reference,
    finest_rows_reference,
)

from tallyveil.estimation.intervals.algebra import derive_algebra
from tallyveil.estimation.intervals.fit import grouped
from tallyveil.estimation.intervals.questions import cascade_of
from tallyveil.kernels.tree.sweep import (
    NoisyAnswers,
    SharedRows,
    add_measured,
    add_products,
    answer_rows,
    finest_rows,
)
from tallyveil.schema.presets import load_preset


@pytest.fixture(scope="module")
def setting():
    schema = load_preset("race-age")
    groups = [schema.query(spec) for spec in ("total", schema.attribute_names[0], "detailed")]
    algebra = derive_algebra(schema, groups)
    rng = np.random.default_rng(5)
    n = 9
    return {
        "algebra": algebra,
        "answers": NoisyAnswers(
            cascade_of(groups, algebra.n_cells),
            rng.integers(-50, 50, (n, sum(group.size for group in groups))).astype(np.int16),
            rng.random((3, len(groups))),
        ),
        "blocks": rng.normal(size=(3, algebra.n_block_entries)),
        "signature": rng.integers(0, 3, n),
        "parent": np.sort(rng.integers(0, 4, n)),
        "pull": rng.normal(size=(4, algebra.n_cells)),
        "factors": rng.choice([-1.0, 1.0, 2.0], n),
    }


def both(kernel, twin, rows, algebra, *arguments):
    one, other = np.zeros((rows, algebra.n_cells)), np.zeros((rows, algebra.n_cells))
    kernel(*arguments, one)
    twin(*arguments, other)
    assert np.abs(one).max() > 0
    np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-10)


def test_add_measured(setting):
    algebra = setting["algebra"]
    groups = grouped(setting["parent"], setting["signature"], setting["factors"])
    assert len(groups.target) < len(setting["parent"])  # some share their blocks
    both(
        add_measured,
        add_measured_reference,
        4,
        algebra,
        algebra.basis,
        setting["answers"],
        setting["blocks"],
        groups,
        0,
        len(groups.target),
    )


def test_add_products(setting):
    algebra = setting["algebra"]
    rows = (
        SharedRows(setting["blocks"], setting["signature"]),
        SharedRows(setting["pull"], setting["parent"]),
    )
    both(add_products, add_products_reference, 9, algebra, algebra.basis, *rows, 1, 8)


def test_answer_rows(setting):
    algebra, cascade = setting["algebra"], setting["answers"].cascade
    one, other = np.zeros((4, len(cascade.scale) + 1)), np.zeros((4, len(cascade.scale) + 1))
    answer_rows(algebra.basis, cascade, setting["pull"], 0, 4, one)
    answer_rows_reference(algebra.basis, cascade, setting["pull"], 0, 4, other)
    np.testing.assert_allclose(one[:, :-1], other[:, :-1], atol=1e-12)


def test_finest_rows(setting):
    algebra = setting["algebra"]
    blocks = SharedRows(setting["blocks"], setting["signature"])
    pull = SharedRows(setting["pull"], setting["parent"])
    both(
        finest_rows,
        finest_rows_reference,
        9,
        algebra,
        algebra.basis,
        setting["answers"],
        blocks,
        pull,
        0,
        9,
    )
