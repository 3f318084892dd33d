"""Laws of cells and queries on schemas of any shape."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

# Fixed examples and no clock, so that a slow machine fails nothing.


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    """A schema of one to four small attributes, some with recodes that may leave levels out, or overlap."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    attributes = tuple(
        Attribute(f"a{i}", tuple(f"l{j}" for j in range(size))) for i, size in enumerate(sizes)
    )
    recodes = []
    for attribute in attributes:
        homes = draw(st.lists(st.integers(-1, 2), min_size=attribute.size, max_size=attribute.size))
        used = sorted({home for home in homes if home >= 0})
        if used:
            placed = list(zip(attribute.levels, homes, strict=True))
            groups = tuple(
                (f"g{group}", tuple(level for level, home in placed if home == group)) for group in used
            )
            recodes.append(Recode(f"r_{attribute.name}", attribute.name, groups))
        own = st.lists(st.sampled_from(attribute.levels), min_size=1, unique=True).map(tuple)
        drawn = draw(st.lists(own, max_size=3))
        if drawn:
            groups = tuple((f"g{group}", levels) for group, levels in enumerate(drawn))
            recodes.append(Recode(f"o_{attribute.name}", attribute.name, groups, overlapping=True))
    return Schema("drawn", attributes, tuple(recodes))


@st.composite
def queries(draw: st.DrawFn) -> tuple[Schema, QueryGroup]:
    """A schema and a query group of it."""
    schema = draw(schemas())
    known = set(schema.factor_names)
    names = []
    for attribute in schema.attributes:
        options = [
            name for name in (attribute.name, f"r_{attribute.name}", f"o_{attribute.name}") if name in known
        ]
        chosen = draw(st.sampled_from([None, *options]))
        names += [chosen] if chosen else []
    spec = "*".join(draw(st.permutations(names))) or "total"
    return schema, schema.query(spec)


def matrix(schema: Schema, query: QueryGroup) -> np.ndarray:
    """The query as an explicit 0/1 matrix: the Kronecker product of one small matrix per attribute."""
    product = np.ones((1, 1), dtype=np.int64)
    recodes = {recode.name: recode for recode in schema.recodes}
    asked = set(query.name.split("*"))
    for attribute in schema.attributes:
        own = (recodes.get(f"{kind}_{attribute.name}") for kind in "ro")
        recode = next((one for one in own if one and one.name in asked), None)
        if attribute.name in asked:
            factor = np.eye(attribute.size, dtype=np.int64)
        elif recode:
            groups = [group for _, group in recode.groups]
            factor = np.array([[int(level in group) for level in attribute.levels] for group in groups])
        else:
            factor = np.ones((1, attribute.size), dtype=np.int64)
        product = np.kron(product, factor)
    return product


def integers(shape: tuple[int, int], seed: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).integers(-1000, 1000, shape)


@given(schemas())
def test_decode_undoes_encode(schema: Schema) -> None:
    cells = np.arange(schema.size)
    codes = schema.decode(cells)
    assert np.array_equal(schema.encode(codes), cells)
    assert (codes < np.array(schema.shape)).all()


@given(queries(), st.integers(0, 2**32), st.integers(1, 3))
def test_queries_agree_with_their_matrix(drawn: tuple[Schema, QueryGroup], seed: int, n_rows: int) -> None:
    schema, query = drawn
    dense = matrix(schema, query)
    histogram = integers((n_rows, schema.size), seed)
    assert dense.shape == (query.size, schema.size)
    assert np.array_equal(query.apply_dense(histogram), histogram @ dense.T)
    rows, cells = np.nonzero(histogram)
    assert np.array_equal(query.apply(rows, cells, histogram[rows, cells], n_rows), histogram @ dense.T)
    assert max(1, dense.sum(axis=0).max(initial=0)) == query.sensitivity


@given(queries())
def test_sensitivities_are_the_largest_over_all_moves_of_a_record(drawn: tuple[Schema, QueryGroup]) -> None:
    schema, query = drawn
    dense = matrix(schema, query)
    if not dense.any():
        return
    # The answers of two geounits. A column is a pair of a geounit and a cell, and a record moves between two columns.
    columns = np.kron(np.eye(2, dtype=np.int64), dense).T
    changes = (columns[:, None, :] - columns[None, :, :]).reshape(-1, columns.shape[1])
    assert np.abs(changes).max() == 1
    assert np.abs(changes).sum(axis=1).max() == (changes**2).sum(axis=1).max() == 2 * query.sensitivity


@given(queries())
def test_layers_do_not_overlap_and_hold_every_answer_once(drawn: tuple[Schema, QueryGroup]) -> None:
    schema, query = drawn
    layers = [matrix(schema, query) * 0 for _ in query.layers]
    for layer, own in zip(query.layers, layers, strict=True):
        assert (layer.name, layer.size, layer.labels()) == (query.name, query.size, query.labels())
        assert not layer.overlaps
        answers = layer.answers_of(np.arange(schema.size))
        own[answers[answers >= 0], np.flatnonzero(answers >= 0)] = 1
    assert np.array_equal(sum(layers), matrix(schema, query))
    assert sum(own.any(axis=1) for own in layers).max() <= 1
    places, answers = query.counted_in(np.arange(schema.size))
    assert sorted(zip(answers.tolist(), places.tolist(), strict=True)) == [
        tuple(pair) for pair in np.argwhere(matrix(schema, query)).tolist()
    ]


@given(queries(), st.integers(0, 2**32))
def test_adjoint_is_the_transpose(drawn: tuple[Schema, QueryGroup], seed: int) -> None:
    schema, query = drawn
    x = integers((1, schema.size), seed)
    y = integers((1, query.size), seed + 1)
    there = (query.apply_dense(x) * y).sum()
    back = (x * query.adjoint(y, np.arange(schema.size))).sum()
    assert there == back


@given(queries())
def test_labels_are_one_per_answer_and_distinct(drawn: tuple[Schema, QueryGroup]) -> None:
    _, query = drawn
    labels = query.labels()
    assert len(labels) == query.size == math.prod(query.shape)
    assert len(set(labels)) == len(labels)
    for answer, label in enumerate(labels):
        assert label == (" * ".join(f"{k}={v}" for k, v in query.label(answer).items()) or "total")


@given(queries(), st.data())
def test_possible_answers_are_those_of_the_possible_cells(
    drawn: tuple[Schema, QueryGroup], data: st.DataObject
):
    schema, query = drawn
    zeros = []
    for number in range(data.draw(st.integers(0, 4))):
        chosen = data.draw(st.lists(st.sampled_from(schema.attributes), min_size=1, unique=True))
        levels = [
            (one.name, tuple(data.draw(st.lists(st.sampled_from(one.levels), min_size=1, unique=True))))
            for one in chosen
        ]
        zeros.append(StructuralZero(f"z{number}", tuple(levels)))
    schema = replace(schema, structural_zeros=tuple(zeros))
    cells = np.flatnonzero(schema.possible(np.arange(schema.size)))
    _, answers = query.counted_in(cells)
    assert np.array_equal(schema.possible_answers(query), np.unique(answers))
