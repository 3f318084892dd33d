"""Which cases of a long row run with every test run, and which only with `make test-nightly` or `make soak`."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

SUITE = 10
"""Cases of one row in every test run. Of the seeded bugs tried, ten cases caught all, and one case less than half."""

nightly = partial(pytest.param, marks=pytest.mark.nightly)
"""A case that only `make test-nightly` runs."""

not_asked_for: set[str] = set()
"""Marks that this run leaves out (`tests/conftest.py`). Their cases, half of all, are then not even collected."""


def every(step: int, cases: Iterable[Any]) -> list[Any]:
    """The first of each `step` cases, and the others under the mark `soak`."""
    return _asked_for(
        case if i % step == 0 else pytest.param(*_values(case), marks=pytest.mark.soak)
        for i, case in enumerate(cases)
    )


def ten(cases: Iterable[Any]) -> list[Any]:
    """Ten of the cases that no mark leaves out, from the first to the last, and the others under the mark `nightly`."""
    return few(SUITE, cases)


def few(number: int, cases: Iterable[Any]) -> list[Any]:
    """So many of the cases that no mark leaves out, from the first to the last; the others under the mark `nightly`.

    For cases that take long and go through the same lines.
    """
    listed = [case if hasattr(case, "marks") else pytest.param(*_values(case)) for case in cases]
    unmarked = [i for i, case in enumerate(listed) if not case.marks]
    # The steps between them differ, so seeds of every remainder are among them: tests tell kinds of cases by it.
    last, steps = len(unmarked) - 1, min(number, len(unmarked))
    suite = {unmarked[i * last // max(1, steps - 1)] for i in range(steps)}
    return _asked_for(
        case if case.marks or i in suite else case._replace(marks=(pytest.mark.nightly,))
        for i, case in enumerate(listed)
    )


def _asked_for(cases: Iterable[Any]) -> list[Any]:
    return [case for case in cases if not_asked_for.isdisjoint(m.name for m in getattr(case, "marks", ()))]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
