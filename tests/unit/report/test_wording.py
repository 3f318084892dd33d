from fractions import Fraction

import pytest

from tallyveil.report import wording
from tallyveil.words.listing import listed


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.001839, "0.00184"),
        (3.1622, "3.16"),
        (99.96, "100.0"),
        (1239.6, "1,240"),
        (123456.0, "123,000"),
    ],
)
def test_rounded(value: float, text: str) -> None:
    assert wording.rounded(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (1, "100 %"),
        (0.5, "50 %"),
        (0.9997, "100 %"),
        (1 / 3, "33.3 %"),
        (0.00049, "0.049 %"),
        (1.5, "150 %"),
    ],
)
def test_percent(share: float, text: str) -> None:
    assert wording.percent(share) == text


def test_powers_of_ten() -> None:
    assert wording.power_of_ten(Fraction(1, 10**10)) == "10<sup>−10</sup>"
    assert wording.power_of_ten(Fraction(3, 10**7)) == "3 × 10<sup>−7</sup>"
    assert (
        wording.power_of_ten(Fraction("3.01e-7")) == "3.1 × 10<sup>−7</sup>"
    )  # a delta is never understated
    assert wording.power_of_ten(Fraction(1, 40)) == "0.025"
    assert wording.scientific(0.52) == "0.52"


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (3 << 50, "3072.0 TiB")],
)
def test_file_size(size: int, text: str) -> None:
    assert wording.file_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.04 s"),
        (1.5, "1.5 s"),
        (9.94, "9.9 s"),
        (42.4, "42 s"),
        (600, "10 min"),
        (9_000, "2 h 30 min"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert wording.duration(seconds) == text


def test_a_group_is_no_groups() -> None:
    assert [wording.groups_counted(n) for n in (0, 1, 1_200)] == ["0 groups", "1 group", "1,200 groups"]


def test_names_and_lists() -> None:
    assert wording.name_title("Block_Group") == "Block Group"
    assert [listed(items) for items in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "none", "a", "a and b", "a, b and c",
    ]  # fmt: skip
