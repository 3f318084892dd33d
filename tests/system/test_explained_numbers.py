"""The page on what a release promises has the accountant's numbers for examples/rhode_island/release.toml."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
PAGE = (PROJECT / "docs" / "explain" / "what-a-release-promises.md").read_text()
PROMISES, MEANING = PAGE.split("\n## What epsilon 16.5 means")


def rounded_up(value: float, places: int) -> float:
    return math.ceil(value * 10**places) / 10**places


@pytest.fixture(scope="module")
def guarantee() -> Any:
    """The guarantee of the page's own example."""
    (example,) = re.findall(r"```python\n(.*?)```", MEANING, re.DOTALL)
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(PROJECT)
        exec(compile(example, "what-a-release-promises.md", "exec"), names)
    assert f"{names['power']:.6f}".startswith(
        re.findall(r"beta\(0.05\).lower  # ([0-9.]+?)\.\.\.", MEANING)[0]
    )
    return names["guarantee"]


def test_the_table_of_powers(guarantee):
    rows = re.findall(r"^\| ([0-9.]+) % \| ([0-9.]+) % \|$", MEANING, re.MULTILINE)
    assert len(rows) == 4
    for alarms, power in rows:
        bound = 100 * (1 - guarantee.beta(float(alarms) / 100).lower)
        assert float(power) == pytest.approx(rounded_up(bound, 1))


@pytest.mark.nightly
def test_the_single_numbers(guarantee):
    assert rounded_up(guarantee.mu().upper, 2) == 2.27
    advantage = guarantee.advantage().upper
    assert rounded_up(advantage, 3) == 0.742
    assert rounded_up(50 * (1 + advantage), 1) == 87.1
    assert rounded_up(guarantee.epsilon("1e-10").upper, 2) == 16.47
    for number in ("2.27", "0.742", "87.1 %", "16.47", "rho = 2.56"):
        assert number in MEANING
    assert "73.2 %" in PROMISES
    assert "rho = 2.56" in PROMISES
