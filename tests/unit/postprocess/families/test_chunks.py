"""Chunks are cut by size alone; answers of the slow way are put where the kernel left families."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import ten

from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.problem import (
    EstimateStatus,
    EstimationPass,
    FamilyProblem,
    MeasuredQuery,
    RoundingMethod,
    RoundingStage,
)
from tallyveil.kernels.family.chunk import CERTIFIED, COPIED, EMPTY, LEFT
from tallyveil.postprocess.families import level
from tallyveil.postprocess.families.level import Span, cut
from tallyveil.schema.counts import PublicCounts


def parents(supports):
    """Counts of parents with so many cells each."""
    offsets = np.concatenate([[0], np.cumsum(supports)]).astype(np.int64)
    cells = np.concatenate([np.arange(n) for n in supports]).astype(np.int64)
    return PublicCounts("Town", offsets, cells, np.ones(len(cells), np.int64))


def unknowns(supports, children):
    """Children times cells, and one more for each child, so that families without people count too."""
    return [n * (s + 1) for n, s in zip(children, supports, strict=True)]


SIZES = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30)), min_size=1, max_size=40)


@given(SIZES, st.integers(1, 300), st.integers(1, 50))
@settings(max_examples=150)
def test_every_family_is_in_one_chunk_of_about_the_same_size(sizes, smallest, wanted):
    supports, children = zip(*sizes, strict=True)
    begin = np.concatenate([[0], np.cumsum(children)])
    work = unknowns(supports, children)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(level, "SMALLEST", smallest)
        patch.setattr(level, "LARGEST", 4 * smallest)
        patch.setattr(level, "CHUNKS_WANTED", wanted)
        spans = cut(parents(supports), begin)
    assert [family for span in spans for family in range(span.first, span.last)] == list(range(len(sizes)))
    assert [span.number for span in spans] == list(range(len(spans)))
    limit = min(max(sum(work) // wanted, smallest), 4 * smallest)
    for span in spans:
        assert span.unknowns == sum(work[span.first : span.last])
        assert span.unknowns <= limit or span.last == span.first + 1
    for one, next_one in pairwise(spans):  # no chunk ends where another family would fit
        assert one.unknowns + work[next_one.first] > limit


def test_a_country_too_large_for_int32_is_cut():
    offsets = np.array([0, 2**20, 2**21], dtype=np.int64)
    above = PublicCounts("US", offsets, np.zeros(0, np.int32), np.zeros(0, np.int32))
    spans = cut(above, np.array([0, 2**23, 2**24]))
    assert [span.unknowns for span in spans] == [2**23 * (2**20 + 1)] * 2


def solved(rng, support, n_children):
    """A family's answer by the slow way."""
    labels = np.arange(len(support), dtype=np.int32)
    counts = rng.integers(1, 9, len(support))
    return estimate_family(
        FamilyProblem(
            geocode="p",
            geolevel="Town",
            children=tuple(f"c{number}" for number in range(n_children)),
            support=support,
            parent_counts=counts,
            measured=(MeasuredQuery("cells", labels, rng.integers(-2, 9, (n_children, len(support))), 2.0),),
            constraints=(),
            passes=(EstimationPass(("cells",)),),
            rounding=(RoundingStage((("cells", labels),)),),
        )
    )


@pytest.mark.parametrize("seed", ten(range(12)))
def test_the_slow_ways_answers_stand_in_the_places_of_their_families(seed):
    """Against the rows of all children, one family after the other, as lists."""
    rng = np.random.default_rng([5, seed])
    n_families, first = int(rng.integers(1, 7)), int(rng.integers(0, 3))
    supports = [np.sort(rng.choice(30, int(rng.integers(1, 6)), replace=False)) for _ in range(n_families)]
    children = rng.integers(1, 5, n_families)
    # parents before the chunk, whose cells must not be taken for the families' own
    offsets = np.concatenate([[0], np.cumsum([3] * first + [len(one) for one in supports])]).astype(np.int64)
    cells = np.concatenate([np.full(3 * first, 77), *supports]).astype(np.int64)
    above = PublicCounts("Town", offsets, cells, np.ones(len(cells), np.int64))
    ended = rng.choice([LEFT, CERTIFIED, COPIED, EMPTY], n_families)
    left, rows, by_kernel = {}, [], []
    for family, support in enumerate(supports):
        if ended[family] == LEFT:
            left[family] = solved(rng, support, int(children[family]))
            rows += [
                [(int(support[i]), int(row[i])) for i in np.flatnonzero(row)] for row in left[family].counts
            ]
            by_kernel += [[] for _ in range(children[family])]
        else:
            own = [
                [(int(cell), int(rng.integers(1, 9))) for cell in support] for _ in range(children[family])
            ]
            rows += own
            by_kernel += own
    entries = [entry for row in by_kernel for entry in row]
    found = level._Found(
        ended,
        rng.random(n_families) < 0.5,
        np.where(ended == LEFT, 99.0, 1e-9 * np.arange(n_families)),
        np.array([len(row) for row in by_kernel]),
        np.array([cell for cell, _ in entries], dtype=np.int64),
        np.array([count for _, count in entries], dtype=np.int64),
    )
    begin = 1000 + np.concatenate([[0], np.cumsum(children)])
    outcome = level._with_left(Span(0, first, first + n_families, 1), found, left, begin, above)
    assert outcome.lengths.tolist() == [len(row) for row in rows]
    assert outcome.cells.tolist() == [cell for row in rows for cell, _ in row]
    assert outcome.counts.tolist() == [count for row in rows for _, count in row]
    for family in range(n_families):
        if family in left:
            assert outcome.statuses[family] is left[family].status
            assert outcome.methods[family] is left[family].rounding.method
        else:
            assert outcome.statuses[family] is level.STATUS[int(ended[family])]
            flow = RoundingMethod.NETWORK_FLOW if found.chosen[family] else RoundingMethod.FIXED
            assert outcome.methods[family] is flow
    # the kernel's residual of a family that it left is not counted: another answer stands there
    assert outcome.residual_persons < 1e-3
    assert outcome.widened == sum(one.rounding.widened for one in left.values())


def test_statuses_of_the_kernel_have_a_name_each():
    assert len(set(level.STATUS.values())) == len(level.STATUS) == 4
    assert set(level.STATUS.values()) < set(EstimateStatus)
