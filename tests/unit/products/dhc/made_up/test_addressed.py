import numpy as np

from tallyveil.products.dhc.made_up.households import For, uniforms


def test_numbers_depend_on_their_address_alone():
    block, item = np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)
    every = uniforms(7, For.SEX, block, item)
    assert np.array_equal(uniforms(7, For.SEX, block[9:12], item[9:12]), every[9:12])
    assert (
        len(
            np.unique(
                np.concatenate([every, uniforms(7, For.AGE, block, item), uniforms(8, For.SEX, block, item)])
            )
        )
        == 60
    )


def test_numbers_are_even():
    block, item = np.repeat(np.arange(100), 100), np.tile(np.arange(100), 100)
    counts = np.histogram(uniforms(1, For.AGE, block, item), bins=20, range=(0, 1))[0]
    # Twenty bins of 500 each: the statistic has 19 degrees of freedom, and exceeds 50 once in 10,000 seeds.
    assert np.sum((counts - 500) ** 2 / 500) < 50
    assert abs(np.corrcoef(uniforms(1, For.AGE, block, item), uniforms(1, For.SEX, block, item))[0, 1]) < 0.05


def test_large_seeds_are_taken():
    assert 0 <= uniforms(2**63, For.AGE, np.array([1]))[0] < 1
