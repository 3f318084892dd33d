"""What holds for every spine."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.geography.build import spine_from_columns, spine_from_prefixes
from tallyveil.geography.spine import Spine

FIXED = st.lists(st.text("0129é", min_size=6, max_size=6), min_size=1, max_size=40, unique=True)
# The same examples every time, and no time limit an occupied machine could exceed.
LENGTHS = st.lists(st.integers(0, 5), max_size=4, unique=True).map(lambda cuts: (*sorted(cuts), 6))


def names_for(lengths: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(f"level {index}" for index in range(len(lengths)))


@st.composite
def ragged_paths(draw: st.DrawFn) -> list[tuple[str, ...]]:
    """Rows of a tree whose geocodes have any length; each geounit has one parent by construction."""
    depth = draw(st.integers(1, 4))
    rows: list[tuple[str, ...]] = [()]
    for level in range(depth):
        grown = []
        for number, row in enumerate(rows):
            children = draw(st.lists(st.text("ab", max_size=3), min_size=1, max_size=3, unique=True))
            # The random part comes first, so that order by geocode is not order by path.
            grown += [(*row, f"{child}.{level}.{number}") for child in children]
        rows = grown
    return draw(st.permutations(rows))


def spine_of(rows: list[tuple[str, ...]]) -> Spine:
    names = names_for(rows[0])
    return spine_from_columns({name: [row[level] for row in rows] for level, name in enumerate(names)}, names)


@given(FIXED, LENGTHS)
def test_prefix_form_is_column_form(geocodes: list[str], lengths: tuple[int, ...]) -> None:
    names = names_for(lengths)
    cut = {
        name: [code[:length] if length else name for code in geocodes]
        for name, length in zip(names, lengths, strict=True)
    }
    assert spine_from_prefixes(geocodes, names, lengths).digest() == spine_from_columns(cut, names).digest()


@given(ragged_paths(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(rows: list[tuple[str, ...]], random) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert spine_of(rows).digest() == spine_of(shuffled).digest()


@given(ragged_paths())
def test_the_spine_holds_exactly_the_rows_in_order_of_their_paths(rows: list[tuple[str, ...]]) -> None:
    spine = spine_of(rows)
    paths = zip(
        *(spine.geocodes[level][spine.ancestors(level)].tolist() for level in range(spine.n_levels)),
        strict=True,
    )
    assert list(paths) == sorted(rows)


@given(ragged_paths())
def test_offsets_parents_and_ancestors_agree(rows: list[tuple[str, ...]]) -> None:
    spine = spine_of(rows)
    above = np.arange(spine.n_geounits(spine.finest))
    for level in range(spine.finest, 0, -1):
        assert np.array_equal(spine.ancestors(level), above)
        parents = spine.parents(level)
        for geounit, (start, end) in enumerate(
            zip(spine.child_offsets[level - 1][:-1], spine.child_offsets[level - 1][1:], strict=True)
        ):
            assert set(parents[start:end].tolist()) == {geounit}
            siblings = spine.geocodes[level][start:end].tolist()
            assert siblings == sorted(siblings)
        above = parents[above]
    assert np.array_equal(spine.ancestors(0), above)


@given(ragged_paths())
def test_every_geocode_is_found_where_it_stands(rows: list[tuple[str, ...]]) -> None:
    spine = spine_of(rows)
    for level, codes in enumerate(spine.geocodes):
        assert len(set(codes.tolist())) == len(codes)
        assert np.array_equal(spine.locate(level, codes), np.arange(len(codes)))
        assert spine.locate(level, ["nowhere"]).tolist() == [-1]


@given(ragged_paths())
def test_the_finest_geounits_of_a_geounit_are_a_run(rows: list[tuple[str, ...]]) -> None:
    spine = spine_of(rows)
    for level in range(spine.n_levels):
        counts = np.bincount(spine.ancestors(level), minlength=spine.n_geounits(level))
        assert np.array_equal(np.diff(spine.finest_offsets(level)), counts)
