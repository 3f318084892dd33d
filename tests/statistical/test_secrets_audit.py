"""Real measurements refute no epsilon that is certified for a secret, and they would refute a wrong one."""

import pytest
from tests.auditors.secrets import audited_secrets

# What is certified is compared with every pair of a small universe in tests/unit/plans/test_secrets.py.
pytestmark = pytest.mark.nightly

COUNTRIES = 50_000


@pytest.fixture(scope="module")
def honest():
    return list(audited_secrets(COUNTRIES))


def test_every_secret_of_a_country_is_audited(honest):
    assert [item.name for item in honest] == [
        "sex",
        "age",
        "age within adult",
        "all attributes",
        "place within County",
        "place within Country",
    ]


def test_no_certified_epsilon_is_refuted_and_none_is_far_above_what_is_seen(honest):
    for item in honest:
        assert 0.7 * item.certified <= item.lower <= item.certified, item


def test_noise_of_a_quarter_of_the_variance_is_refuted():
    for item in audited_secrets(COUNTRIES // 2, times=4):
        assert item.lower > item.certified, item
