"""Estimates and covariances against dense generalised least squares on random trees.

The reference stacks the cells of every finest geounit, writes each measurement and each exact statement as a row
of a matrix, and solves in the null space of what is exact. It knows nothing of blocks, sweeps or signatures.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pytest
from tests.samples import every, few
from threadpoolctl import threadpool_limits

from tallyveil.errors import ConstraintError
from tallyveil.estimation.intervals.algebra import coefficients
from tallyveil.estimation.intervals.answers import level_answers, region_answers, region_variances
from tallyveil.estimation.intervals.covariance import tree_covariance
from tallyveil.estimation.intervals.fit import fit_tree
from tallyveil.estimation.intervals.joint import Asked, joint_covariance
from tallyveil.estimation.intervals.model import LevelModel, Zeros, model_of_levels
from tallyveil.estimation.intervals.questions import questions_of, sums_of
from tallyveil.estimation.intervals.regions import Region, region_of
from tallyveil.geography.areas import StatedGeounits, with_sums
from tallyveil.geography.build import spine_from_columns
from tallyveil.geography.spine import Spine
from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.schema import Schema

RELATIVE = 1e-9


def matrix(group):
    """The query as a dense matrix."""
    answers = group.answers_of(np.arange(group.n_cells))
    out = np.zeros((group.size, group.n_cells))
    out[answers[answers >= 0], np.flatnonzero(answers >= 0)] = 1
    return out


def random_schema(rng):
    """Two or three attributes with recodes of unequal, nested, overlapping and partial groups."""
    attributes, recodes = [], []
    for a in range(int(rng.integers(2, 4))):
        n = int(rng.integers(2, 6 if a else 5))
        levels = tuple(f"l{i}" for i in range(n))
        attributes.append(Attribute(f"a{a}", levels))
        for r in range(int(rng.integers(0, 3)) if n > 2 else 0):
            codes = rng.integers(-1 if rng.random() < 0.4 else 0, int(rng.integers(1, n)), n)
            used = sorted(set(codes[codes >= 0].tolist()))
            if used:
                groups = tuple((f"g{g}", tuple(np.array(levels)[codes == g].tolist())) for g in used)
                recodes.append(Recode(f"r{a}{r}", f"a{a}", groups))
    zeros = ()
    if rng.random() < 0.3:
        picked = [(one.name, (one.levels[int(rng.integers(one.size))],)) for one in attributes[:2]]
        zeros = (StructuralZero("never", tuple(picked)),)
    return Schema("random", tuple(attributes), tuple(recodes), zeros)


def random_query(rng, schema):
    """A product of attributes and recodes, each attribute at most once."""
    names = []
    for attribute in schema.attributes:
        options = [attribute.name, *(r.name for r in schema.recodes if r.attribute == attribute.name)]
        if rng.random() < 0.5:
            names.append(str(rng.choice(options)))
    return schema.query("*".join(names) or "total")


def random_spine(rng, n_levels):
    """Geounits with one to four children, sometimes only one, sometimes two roots."""
    paths = [[f"{i}"] for i in range(1 + int(rng.random() < 0.2))]
    for _ in range(n_levels - 1):
        paths = [[*path, f"{path[-1]}{i}"] for path in paths for i in range(int(rng.choice([1, 2, 3, 4])))]
    paths = paths[:14]
    columns = {f"L{level}": [path[level] for path in paths] for level in range(n_levels)}
    return spine_from_columns(columns, list(columns))


@dataclass
class Rows:
    """Answers held in memory."""

    tables: list

    def rows(self, level, queries, start, stop):
        return self.tables[level][start:stop]


@dataclass
class Case:
    """A model with data, and the dense solution."""

    model: object
    rows: Rows
    invariants: dict
    members: list
    particular: np.ndarray
    base: np.ndarray
    covariance: np.ndarray
    lost: np.ndarray


def random_model(seed, detailed_everywhere):
    """A model, and the generator that goes on to make its data."""
    rng = np.random.default_rng(seed)
    schema, n_levels = random_schema(rng), int(rng.integers(1, 5))
    spine = random_spine(rng, n_levels)
    zeros = []
    if rng.random() < 0.5:
        attribute = schema.query(schema.attributes[int(rng.integers(len(schema.attributes)))].name)
        level = int(rng.integers(n_levels))
        zeros.append(
            Zeros(
                attribute, spine.geolevels[level], rng.random((spine.n_geounits(level), attribute.size)) < 0.3
            )
        )
    levels = []
    for level, name in enumerate(spine.geolevels):
        n = spine.n_geounits(level)
        groups = {}
        for _ in range(int(rng.integers(1, 4))):
            group = random_query(rng, schema)
            groups[group.factors] = group
        if detailed_everywhere or rng.random() < 0.6:
            groups[schema.query("detailed").factors] = schema.query("detailed")
        if level < n_levels - 1 and rng.random() < 0.15:
            groups = {}  # a whole geolevel that is not measured
        measured = tuple(groups.values())
        precisions = np.exp(rng.normal(-1, 1, (n, len(measured))))
        if rng.random() < 0.3:
            precisions = precisions[:1]  # alike
        else:
            lost = rng.random(n) < (0.3 if not detailed_everywhere or level < n_levels - 1 else 0)
            precisions[lost] = 0
            if level < n_levels - 1 or not detailed_everywhere:
                precisions[rng.random(precisions.shape) < 0.15] = 0
        exact = tuple(
            schema.query(str(name))
            for name in dict.fromkeys(["total", schema.attributes[0].name])
            if rng.random() < 0.2
        )
        levels.append(LevelModel(name, measured, precisions, exact))
    return model_of_levels(schema, spine, levels, zeros=zeros), rng


def random_case(seed, detailed_everywhere):
    """A model with data, and its dense solution."""
    model, rng = random_model(seed, detailed_everywhere)
    present = ~model.zero_patterns[model.zero_pattern]
    truth = rng.poisson(3.0, (len(present), model.schema.size)) * present
    return solve(model, truth, rng)


def solve(model, truth, rng):
    """Draw measurements and solve densely."""
    spine, n_cells = model.spine, model.schema.size
    n = len(truth)
    members = [
        (spine.ancestors(level)[None, :] == np.arange(spine.n_geounits(level))[:, None]).astype(float)
        for level in range(spine.n_levels)
    ]
    normal, right = np.zeros((n * n_cells, n * n_cells)), np.zeros(n * n_cells)
    exact_rows, exact_values = [np.eye(n * n_cells)[(truth.reshape(-1) < 0)]], [np.zeros(0)]
    gone = model.zero_patterns[model.zero_pattern].reshape(-1)
    exact_rows.append(np.eye(n * n_cells)[gone])
    exact_values.append(np.zeros(int(gone.sum())))
    tables, invariants = [], {}
    for level, own in enumerate(model.levels):
        sums = members[level] @ truth
        precisions = own.precisions_of(np.arange(len(sums)))
        answers = []
        for q, group in enumerate(own.measured):
            noise = rng.normal(size=(len(sums), group.size)) / np.sqrt(np.maximum(precisions[:, [q]], 0.01))
            values = np.rint(sums @ matrix(group).T + noise).astype(np.int64)
            answers.append(values)
            for g in range(len(sums)):
                rows = np.kron(members[level][g], matrix(group))
                normal += precisions[g, q] * rows.T @ rows
                right += precisions[g, q] * rows.T @ values[g]
        tables.append(np.concatenate([np.zeros((len(sums), 0), np.int64), *answers], axis=1))
        if own.invariants:
            told = [sums @ matrix(group).T for group in own.invariants]
            invariants[own.geolevel] = np.concatenate(told, axis=1).astype(np.int64)
            for g in range(len(sums)):
                for group, value in zip(own.invariants, told, strict=True):
                    exact_rows.append(np.kron(members[level][g], matrix(group)))
                    exact_values.append(value[g])
    rows, values = np.concatenate(exact_rows), np.concatenate(exact_values)
    if len(rows):
        _, sizes, directions = np.linalg.svd(rows)
        rank = int((sizes > 1e-8).sum())
        free = directions[rank:].T
        particular = np.linalg.lstsq(rows, values, rcond=1e-10)[0]
    else:
        free, particular = np.eye(n * n_cells), np.zeros(n * n_cells)
    inside = free.T @ normal @ free
    sizes, vectors = np.linalg.eigh(inside) if len(inside) else (np.zeros(0), np.zeros((0, 0)))
    held = sizes > 1e-9 * max(sizes.max(initial=0), 1)
    base = free @ vectors[:, held]
    covariance = base @ np.linalg.inv(base.T @ normal @ base) @ base.T
    particular = particular + covariance @ (right - normal @ particular)
    particular = particular + covariance @ (right - normal @ particular)  # one refinement
    return Case(
        model, Rows(tables), invariants, members, particular, base, covariance, free @ vectors[:, ~held]
    )


def check_case(case, rng):
    """Every geolevel, several regions, and pairs of them."""
    model = case.model
    spine, n_cells = model.spine, model.schema.size
    covariance = tree_covariance(model)
    fit = fit_tree(covariance, case.rows, case.invariants)
    questions = sums_of(model.algebra, coefficients(model.algebra, np.eye(n_cells)))
    n = spine.n_geounits(spine.finest)
    scale = np.sqrt(np.diag(case.covariance).max(initial=1e-30)) + 1e-12

    def reference(weights):
        rows = np.kron(weights, np.eye(n_cells))
        return (
            rows @ case.particular,
            rows @ case.covariance @ rows.T,
            np.abs(rows @ case.lost).max(axis=1, initial=0),
        )

    def agree(found, weights):
        estimates, cov, lost = reference(weights)
        unknown = lost > 1e-6
        assert np.array_equal(np.isinf(found.variances), unknown)
        assert np.array_equal(np.isnan(found.estimates), unknown)
        size = scale * np.abs(weights).sum()
        assert np.abs(found.variances - np.diag(cov))[~unknown].max(initial=0) <= RELATIVE * size**2
        assert np.abs(found.estimates - estimates)[~unknown].max(initial=0) <= RELATIVE * (
            size + np.abs(estimates[~unknown]).max(initial=0) + 1e-3
        )

    for level in range(spine.n_levels):
        found = level_answers(fit, level, questions)
        for g in range(spine.n_geounits(level)):
            one = type(found)(found.estimates[g], found.variances[g])
            agree(one, case.members[level][g])
    weights = [rng.integers(0, 2, n).astype(float) for _ in range(3)] + [rng.integers(-2, 3, n).astype(float)]
    regions = [Region(np.flatnonzero(w).astype(np.int64), w[w != 0]) for w in weights]
    found = region_answers(fit, regions, questions)
    for row, w in enumerate(weights):
        agree(type(found)(found.estimates[row], found.variances[row]), w)
    check_joint(case, rng, fit, weights)


def check_joint(case, rng, fit, weights):
    """Many questions about many regions at once: some of the regions with whole geounits of every geolevel."""
    model, covariance = case.model, fit.covariance
    spine, n_cells = model.spine, model.schema.size
    for level in range(spine.n_levels):
        some = rng.integers(spine.n_geounits(level), size=2)
        weights = [*weights, *(case.members[level][g] for g in some)]
    cells = np.concatenate([np.eye(n_cells), rng.integers(-1, 3, (3, n_cells))])
    regions = [Region(np.flatnonzero(w).astype(np.int64), w[w != 0]) for w in weights]
    turned = coefficients(model.algebra, cells)
    answers = region_answers(fit, regions, sums_of(model.algebra, turned))
    region, row = np.divmod(rng.permutation(len(regions) * len(cells))[:80], len(cells))
    asked = Asked(regions, region, turned, row)
    rows = np.array([np.kron(weights[r], cells[c]) for r, c in zip(region, row, strict=True)])
    known = np.abs(rows @ case.lost).max(axis=1, initial=0) <= 1e-6 * np.abs(rows).max(axis=1)
    wanted = np.where(np.logical_and.outer(known, known), rows @ case.covariance @ rows.T, np.nan)
    sizes = np.sqrt(np.diag(case.covariance).max(initial=1e-30)) * np.maximum(np.abs(rows).sum(axis=1), 1)
    joint = joint_covariance(covariance, asked, answers.variances[region, row])

    def agree(found, right, scale):
        assert np.array_equal(np.isnan(found), np.isnan(right))
        assert np.nanmax(np.abs(found - right) / scale, initial=0) <= RELATIVE

    matrix = joint.matrix()
    agree(matrix, wanted, np.outer(sizes, sizes))
    assert np.array_equal(matrix, matrix.T, equal_nan=True)
    agree(np.where(np.isinf(joint.variances), np.nan, joint.variances), np.diag(wanted), sizes**2)
    contrasts = np.where(known[:, None], rng.normal(size=(asked.n, 3)), 0)
    right = np.where(known[:, None], np.nan_to_num(wanted) @ contrasts, np.nan)
    agree(joint.times(contrasts), right, np.outer(sizes, sizes).sum(axis=1, keepdims=True))
    if not known.all():
        assert np.isnan(joint.times(np.ones((asked.n, 1)))).all()
    right = np.where(known, rows @ case.particular, np.nan)
    agree(answers.estimates[region, row], right, sizes + np.nanmax(np.abs(right), initial=1e-3))


def refines(one, other):
    """Whether every group of one recode lies in one group of the other, or outside all of them."""
    members = [set(levels) for _, levels in other.groups]
    left_out = set().union(*members)
    return all(
        any(set(levels) <= group for group in members) or not set(levels) & left_out
        for _, levels in one.groups
    )


def features(model):
    """What is hard about a model, in words."""
    spine = model.spine
    measured = [
        (level.precisions > 0).any(axis=1) if level.measured else np.zeros(1, bool) for level in model.levels
    ]
    inner = measured[:-1]
    children = [np.diff(offsets) for offsets in spine.child_offsets]
    holds = {
        "bypassed geounits": any(own.any() and not own.all() for own in inner),
        "geolevels not measured": any(not own.any() for own in inner),
        "finest geounits not measured": not measured[-1].all(),
        "precisions by geounit": any(len(level.precisions) > 1 for level in model.levels),
        "only children": any((own == 1).any() for own in children),
        "invariants at several geolevels": sum(bool(level.invariants) for level in model.levels) > 1,
        "zeros by geounit": len(model.zero_patterns) > 1,
        "structural zeros": bool(model.schema.structural_zeros),
        "several roots": spine.n_geounits(0) > 1,
    }
    return {name for name, held in holds.items() if held} | recode_features(model)


def recode_features(model):
    """The same of the recodes that are measured."""
    used = {factor.name for level in model.levels for group in level.measured for factor in group.factors}
    recodes = [recode for recode in model.schema.recodes if recode.name in used]
    found = {"unequal groups" for one in recodes if len({len(levels) for _, levels in one.groups}) > 1}
    for i, one in enumerate(recodes):
        for other in recodes[:i]:
            if one.attribute == other.attribute:
                found.add("nested" if refines(one, other) or refines(other, one) else "overlapping")
    return found


@pytest.mark.nightly
def test_the_random_trees_hold_what_is_hard():
    """Each in several of the 200; what is rare by chance in five at least."""
    models = [random_model(seed, True)[0] for seed in range(100)]
    models += [random_model(1000 + seed, False)[0] for seed in range(100)]
    counts = Counter(name for model in models for name in features(model))
    assert len(counts) == 12
    assert min(counts.values()) >= 5


@pytest.fixture(autouse=True)
def one_thread():
    """Threads of small dense products wait for each other on a busy machine."""
    with threadpool_limits(limits=1, user_api="blas"):
        yield


@pytest.mark.parametrize("seed", few(4, every(6, range(100))))
def test_everything_measured(seed):
    check_case(random_case(seed, detailed_everywhere=True), np.random.default_rng(seed))


@pytest.mark.parametrize("seed", few(4, every(6, range(100))))
def test_parts_unmeasured(seed):
    check_case(random_case(1000 + seed, detailed_everywhere=False), np.random.default_rng(seed))


def with_exact_sums(seed):
    """A model with exact answers of sums of siblings or roots, and for each finest geounit the number of its sum.

    In half of the models parts are not measured.
    """
    rng = np.random.default_rng(7000 + seed)
    models = (random_model(number, seed % 2 == 0)[0] for number in count(2000 + 100 * seed))
    plain = next(model for model in models if model.spine.n_geounits(model.spine.finest) > 1)
    spine, schema = plain.spine, plain.schema
    level = int(rng.choice([level for level in range(spine.n_levels) if spine.n_geounits(level) > 1]))
    parents = spine.parents(level) if level else np.zeros(spine.n_geounits(0), np.int64)
    groups = np.cumsum((np.diff(parents, prepend=-1) != 0) | (rng.random(len(parents)) < 0.4)) - 1
    wholes = Spine(("Whole",), ([f"sum {number}" for number in range(int(groups[-1]) + 1)],), ())
    stated = StatedGeounits("Whole", level, wholes, 0, groups)
    queries = [schema.query(name) for name in ("total", schema.attributes[0].name)]
    closed = rng.random((len(plain.zero_pattern), queries[1].size)) < (0.2 if seed % 4 == 0 else 0.0)
    levels = [
        *plain.levels[:level],
        LevelModel("Whole/sums", (), np.zeros((1, 0)), tuple(queries[: 1 + seed % 4 // 2])),
        replace(plain.levels[level], invariants=()),
        *plain.levels[level + 1 :],
    ]
    zeros = [Zeros(queries[1], spine.geolevels[-1], closed)]
    return model_of_levels(schema, with_sums(spine, [stated]), levels, zeros=zeros), groups[
        spine.ancestors(level)
    ]


@pytest.mark.parametrize("seed", few(4, range(12)))
def test_what_is_exact_of_sums_of_siblings(seed):
    model, parts = with_exact_sums(seed)
    rng = np.random.default_rng(8000 + seed)
    level = model.spine.level_index("Whole/sums")
    exact = model.levels[level].invariants
    present = ~model.zero_patterns[model.zero_pattern]
    case = solve(model, rng.poisson(3.0, present.shape) * present, rng)
    assert np.array_equal(case.members[level], parts[None, :] == np.arange(parts[-1] + 1)[:, None])
    check_case(case, rng)
    covariance = tree_covariance(model)
    wholes = [region_of(model.spine, parts == number) for number in range(int(parts[-1]) + 1)]
    assert not region_variances(covariance, wholes, questions_of(model.algebra, exact[0])).any()
    with pytest.raises(ConstraintError, match="the invariants of Whole/sums have shape None"):
        fit_tree(covariance, case.rows, {**case.invariants, "Whole/sums": None})
    if len(exact) > 1:
        other = np.zeros_like(case.invariants["Whole/sums"])
        other[0, 0] = 1
        case.invariants["Whole/sums"] = case.invariants["Whole/sums"] + other
        with pytest.raises(ConstraintError, match="the invariants contradict"):
            fit_tree(covariance, case.rows, case.invariants)


def test_variance_of_a_union():
    case = random_case(3, detailed_everywhere=True)
    spine, n = case.model.spine, case.model.spine.n_geounits(case.model.spine.finest)
    covariance = tree_covariance(case.model)
    total = questions_of(case.model.algebra, case.model.schema.query("total"))
    one, other = region_of(spine, np.arange(n) % 2 == 0), region_of(spine, np.arange(n) % 2 == 1)
    a, b, both, apart = region_variances(covariance, [one, other, one + other, one - other], total)[:, 0]
    asked = Asked([one, other], np.arange(2), total.rows(), np.zeros(2, np.int64))
    shared = joint_covariance(covariance, asked, np.array([a, b])).matrix()[0, 1]
    assert both == pytest.approx(a + b + 2 * shared, rel=1e-9, abs=1e-9 * (a + b))
    assert apart == pytest.approx(a + b - 2 * shared, rel=1e-9)
