"""Which cases of a long row run with every test run, and which only with `make soak`."""

from collections.abc import Iterable
from typing import Any

import pytest


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """The first of each `step` cases, and the others under the mark `soak`."""
    return [
        case if i % step == 0 else pytest.param(*_values(case), marks=pytest.mark.soak)
        for i, case in enumerate(cases)
    ]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
