import numpy as np
import pytest

from tallyveil.files.evaluation import merge_tallies, tally_errors


@pytest.mark.parametrize("percent", [1, 5, 50, 94, 95, 96, 100])
@pytest.mark.parametrize("n_answers", [1, 2, 19, 20, 21, 100, 101])
def test_quantiles_are_exact_at_every_rank(percent: int, n_answers: int) -> None:
    errors = np.random.default_rng(n_answers).integers(-6, 7, size=n_answers)
    tally = tally_errors(errors, n_geounits=1, n_answers=n_answers, true_sum=1)
    rank = -(-n_answers * percent // 100)
    assert tally.quantile(percent) == np.sort(np.abs(errors))[rank - 1]


def test_a_quantile_is_right_where_floating_point_would_not_be() -> None:
    # 0.95 * 20 rounds to 19 exactly here, 0.95 * 180 does not: rank 171 is the last answer of size one.
    errors = np.array([1] * 171 + [2] * 9)
    assert tally_errors(errors, n_geounits=1, n_answers=180, true_sum=1).quantile(95) == 1


def test_merging_equals_tallying_together() -> None:
    random = np.random.default_rng(1)
    parts = [random.integers(-9, 10, size=n) for n in (0, 5, 40)]
    apart = [tally_errors(part, n_geounits=1, n_answers=len(part), true_sum=3) for part in parts]
    whole = tally_errors(np.concatenate(parts), n_geounits=3, n_answers=45, true_sum=9)
    merged = merge_tallies(apart)
    assert merged.sizes.tolist() == whole.sizes.tolist()
    assert merged.times.tolist() == whole.times.tolist()
    assert (merged.n_geounits, merged.n_answers, merged.signed_sum, merged.true_sum) == (
        3, 45, whole.signed_sum, 9,
    )  # fmt: skip
    assert merged.absolute_sum == int(np.abs(np.concatenate(parts)).sum())
    assert merged.relative_l1 == merged.absolute_sum / 9


def test_the_mean_square_is_exact_where_floats_would_overflow_or_round():
    tally = tally_errors(np.array([3, -1, 10**9]), n_geounits=2, n_answers=4, true_sum=0)
    assert tally.mean_squared_error == (10**18 + 10) / 4
