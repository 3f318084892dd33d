"""The largest number of population groups of one level that a record can be in, exactly, and a record that attains it.

Problem. A record has at most k race codes and one ethnicity code. Wanted is the largest number of groups of a region
that it can be in.

The files are checked so that a code maps to at most one iteration of each kind. So a record with race codes C and
ethnicity code e is in

    |{combination(c) : c in C}| + [all of C share one Alone iteration] + [e has an ethnicity iteration]

groups of a region.

Steps. If the record is in no Alone iteration, the best C has k codes with distinct combinations. If it is in the Alone
iteration A, C consists of codes of A, and the best C has k of these with distinct combinations. Let n count distinct
combinations, up to k. The maximum over all records is the larger of n(all codes) and 1 + n(codes of A), over every A;
plus one if any code has an ethnicity iteration. All cases are examined, so the number is exact.

Worked case. k = 2. An Alone iteration has two codes, with different combination iterations. A record with both codes is
in two combination iterations and the Alone iteration: three race groups.

The published formula, h_r max(2, k) + h_e, agrees if the Alone and the combination iterations have the same codes. If a
single Alone iteration contains k different combinations, as in the worked case, it is one too small and not a bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Int16s
from tallyveil.products.safetab.public.iterations import View


@dataclass(frozen=True, slots=True)
class Stability:
    """The largest number of groups of one region that a record can be in.

    Attributes:
        groups: The maximum, exact.
        race_codes: Positions of the race codes of a record that attains it.
        ethnicity_code: Position of its ethnicity code.
        total_only: Upper bound on the number of a record's groups that are total-only.
        formula: The published formula, for comparison.
    """

    groups: int
    race_codes: tuple[int, ...]
    ethnicity_code: int
    total_only: int
    formula: int


def stability_of(view: View, max_race_codes: int) -> Stability:
    """The exact stability of a view.

    Args:
        view: Iterations of one level, nationwide or sub-state.
        max_race_codes: Largest number of race codes of a record.
    """
    codes = np.arange(len(view.alone_of))
    groups, chosen = _most(codes, view.alone_of, view.combination_of, max_race_codes)
    # Every record has exactly one ethnicity code, so this adds at most one group.
    ethnic = np.flatnonzero(view.ethnicity_of >= 0)
    # The same search among total-only iterations alone bounds how many of a record's groups can be
    # total-only.
    only = [np.where(m >= view.n_adaptive, m, -1) for m in (view.alone_of, view.combination_of)]
    total_only, _ = _most(codes, only[0], only[1], max_race_codes)
    total_only += int((view.ethnicity_of >= view.n_adaptive).any())
    largest = [int((m >= 0).any()) for m in (view.alone_of, view.ethnicity_of)]
    return Stability(
        groups=groups + int(ethnic.size > 0),
        race_codes=chosen,
        ethnicity_code=int(ethnic[0]) if ethnic.size else 0,
        # The two maxima may be of different records, so this is a bound and need not be attained.
        total_only=min(total_only, groups + int(ethnic.size > 0)),
        formula=largest[0] * max(2, max_race_codes) + largest[1],
    )


def groups_of(view: View, race_codes: Sequence[int], ethnicity_code: int) -> int:
    """Number of groups of one region that a record is in."""
    alone = {int(view.alone_of[code]) for code in race_codes}
    combinations = {int(view.combination_of[code]) for code in race_codes} | (
        alone if len(alone) == 1 else set()
    )
    return len((combinations | {int(view.ethnicity_of[ethnicity_code])}) - {-1})


def common_record(
    views: Sequence[View], stabilities: Sequence[Stability], max_race_codes: int
) -> tuple[tuple[int, ...], int] | None:
    """One record that attains the stability of every view at once, or None if the search finds none.

    With such a record, the sum of the views' stabilities is the largest number of groups of a record in all views
    together. Without one, the sum is an upper bound.
    """
    ethnic = [code for code in range(len(views[0].ethnicity_of)) if _ethnic_everywhere(views, code)]
    ethnicity = ethnic[0] if ethnic else stabilities[0].ethnicity_code
    # Only a few candidates: to search all records would be a set-cover problem. None of them attaining all is
    # safe; the bound is then the sum.
    candidates = [s.race_codes for s in stabilities] + [_distinct_everywhere(views, max_race_codes)]
    for record in candidates:
        attained = [groups_of(view, record, ethnicity) for view in views] if record else []
        if attained == [s.groups for s in stabilities]:
            return tuple(record), ethnicity
    return None


def _most(
    codes: NDArray[np.int64], alone_of: Int16s, combination_of: Int16s, k: int
) -> tuple[int, tuple[int, ...]]:
    """Largest number of race iterations that at most k codes can be in, and such codes."""
    best = _distinct(codes, combination_of, k)
    most = len(best)
    # A record has at least one race code.
    best = best or (0,)
    # Every Alone iteration is tried: its codes may share combinations, so a larger one need not be better.
    for alone in np.unique(alone_of[alone_of >= 0]):
        inside = codes[alone_of == alone]
        chosen = _distinct(inside, combination_of, k)
        if 1 + len(chosen) > most:
            most, best = 1 + len(chosen), chosen or (int(inside[0]),)
    return most, best


def _distinct(codes: NDArray[np.int64], combination_of: Int16s, k: int) -> tuple[int, ...]:
    """Up to k of the codes, with distinct combinations."""
    listed = codes[combination_of[codes] >= 0]
    # The first code of each combination: any k distinct ones are as good as any others.
    _, first = np.unique(combination_of[listed], return_index=True)
    return tuple(int(code) for code in listed[first[:k]])


def _distinct_everywhere(views: Sequence[View], k: int) -> tuple[int, ...]:
    """Up to k codes, taken in order, whose combinations are new in every view."""
    chosen: list[int] = []
    combinations: list[set[int]] = [set() for _ in views]
    for code in range(len(views[0].combination_of)):
        numbers = [int(view.combination_of[code]) for view in views]
        if len(chosen) < k and all(o >= 0 and o not in t for o, t in zip(numbers, combinations, strict=True)):
            chosen.append(code)
            for o, t in zip(numbers, combinations, strict=True):
                t.add(o)
    return tuple(chosen)


def _ethnic_everywhere(views: Sequence[View], code: int) -> bool:
    return all(view.ethnicity_of[code] >= 0 or not (view.ethnicity_of >= 0).any() for view in views)
