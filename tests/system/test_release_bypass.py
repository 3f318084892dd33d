"""Bypassing in a release: one measurement for a geounit and its only child, in every file, against slow oracles."""

import json
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from tests.samples import nightly
from typer.testing import CliRunner

from tallyveil.accounting import proved
from tallyveil.accounting.costs import epsilon_of, rho_of
from tallyveil.accounting.guarantee import compose
from tallyveil.accounting.ledger.joint import read_joint
from tallyveil.accounting.ledger.joint_cost import joint_cost
from tallyveil.accounting.ledger.lines import event_from_mapping
from tallyveil.accounting.numbers import claim_text
from tallyveil.budget.allocation import allocation_of
from tallyveil.cli.main import app
from tallyveil.compare.attack_job import attack
from tallyveil.confidential.measure import Measurer
from tallyveil.errors import BudgetError, ConfigError, GeographyError, StoreError
from tallyveil.estimation.family import estimate_family
from tallyveil.estimation.intervals.fit import StoredRows
from tallyveil.estimation.problem import EstimationPass, FamilyProblem, MeasuredQuery, RoundingStage
from tallyveil.files.geography import read_geography, read_shares
from tallyveil.files.geography import read_hierarchies as read_release_hierarchies
from tallyveil.files.histograms import read_histogram
from tallyveil.measurements.store import StoredMeasurements
from tallyveil.noise.key import insecure_key
from tallyveil.noise.source import NoiseSource
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.record import plan_record
from tallyveil.postprocess.derived.district import district_answers
from tallyveil.postprocess.intervals.job import make_intervals
from tallyveil.postprocess.intervals.model import open_release, plan_model, release_model
from tallyveil.products.topdown.page.release import write_report
from tallyveil.products.topdown.run.inputs import read_hierarchies, read_histograms
from tallyveil.products.topdown.run.preparation import compile_constraints
from tallyveil.products.topdown.run.public import read_public
from tallyveil.products.topdown.run.run import run_release

KEY = insecure_key("bypass test")
BYPASS = "\n[spine]\nbypass = true\n"


def laplace(text: str) -> str:
    """The same release with Laplace noise and without invariants."""
    text = text.replace("discrete_gaussian", "discrete_laplace").replace('rho = "2"', 'epsilon = "2"')
    return text.replace('[[invariants]]\nquery = "total"\ngeolevels = ["Region"]\n', "")


@pytest.fixture
def release(small_release):
    return with_only_children(small_release)


def with_only_children(small_release):
    """Region P has towns of six blocks and of one, region Q one town of three, region R one town of one block."""
    folder = small_release.parent
    blocks = pl.read_parquet(folder / "geography.parquet")["geocode"].to_list()
    alone = ("P0100", "P0304", "Q0000", "Q0001", "Q0005")
    moved = {b: b for b in blocks if b[:3] in ("P00", "P02") or b in alone} | {"Q0102": "R0102"}
    for name in ("geography", "people", "barracks"):
        frame = pl.read_parquet(folder / f"{name}.parquet").filter(pl.col("geocode").is_in(list(moved)))
        frame.with_columns(pl.col("geocode").replace(moved)).write_parquet(folder / f"{name}.parquet")
    small_release.write_text(small_release.read_text() + BYPASS)
    return small_release


@pytest.fixture(scope="module")
def outcome_once(make_small_inputs, tmp_path_factory):
    """The finished release, for copies alone."""
    folder = tmp_path_factory.mktemp("bypass")
    release = with_only_children(make_small_inputs(folder / "inputs"))
    return run_release(load_plan(release), folder / "out", test_key=KEY)


@pytest.fixture
def outcome(outcome_once, tmp_path):
    return replace(outcome_once, path=Path(shutil.copytree(outcome_once.path, tmp_path / "out")))


def oracle_shares(spine, by_level) -> list[list[Fraction]]:
    """By the definition, one geounit at a time: an only child has nothing, what it had is its parent's."""

    def gathered(level: int, geounit: int) -> Fraction:
        share = by_level[level]
        if level < spine.finest:
            start, stop = spine.child_offsets[level][geounit : geounit + 2]
            if stop - start == 1:
                share += gathered(level + 1, int(start))
        return share

    found = []
    for level in range(spine.n_levels):
        alone = [False] * spine.n_geounits(level)
        if level:
            parent = spine.parents(level)
            alone = (np.bincount(parent)[parent] == 1).tolist()
        found.append([Fraction(0) if alone[g] else gathered(level, g) for g in range(len(alone))])
    return found


def test_shares_are_those_of_the_definition_and_paths_sum_to_one(release, outcome):
    plan = load_plan(release)
    made = read_hierarchies(plan)
    wanted = oracle_shares(made.spine, [share for _, share in plan.strategy.geolevel_shares])
    assert made.shares is not None
    for level, shares in enumerate(wanted):
        assert [made.shares.share(level, g) for g in range(len(shares))] == shares
    assert sorted(map(str, {share for shares in wanted for share in shares})) == [
        "0",
        "1",
        "1/2",
        "1/4",
        "3/4",
    ]
    spine = read_geography(outcome.path)
    assert spine.digest() == made.spine.digest() == read_hierarchies(load_plan(release)).original.digest()
    stored = read_shares(outcome.path, spine)
    assert stored is not None
    assert stored.values == made.shares.values
    assert all(np.array_equal(a, b) for a, b in zip(stored.positions, made.shares.positions, strict=True))


def test_the_ledger_spends_the_whole_once_for_every_kind_of_path(outcome):
    event = event_from_mapping(outcome.manifest.event)
    assert rho_of(event) == 2
    kinds = outcome.manifest.event["events"][0]
    assert kinds["kind"] == "parallel"
    assert len(kinds["events"]) == 4
    assert all(rho_of(event_from_mapping(kind)) == 2 for kind in kinds["events"])
    lines = [json.loads(line) for line in (outcome.path / "ledger.jsonl").read_text().splitlines()]
    assert lines[-1]["cost"] == "2"
    assert lines[-1]["event"] == outcome.manifest.event
    privacy = outcome.manifest.privacy
    assert "sum to exactly 1" in privacy["paths"]
    exact = privacy["exact"]
    assert 0 < exact["epsilon"]["lower"] <= exact["epsilon"]["upper"] <= privacy["epsilon"]
    assert [level["spent"] for level in exact["geolevels"]] == ["2", "3/2", "1"]
    record = outcome.manifest.body["spine"]["bypassing"]
    assert [level["not_measured"] for level in record["geolevels"]] == [0, 2, 3]
    assert record["rule"] == "single_child"


@pytest.fixture(params=[50, nightly(1)])
def few(request, monkeypatch):
    """Up to how many ways are composed one by one; nothing computed with another number is kept for other tests."""

    def forget():
        proved._proved.cache_clear()
        proved._composed.cache_clear()

    monkeypatch.setattr("tallyveil.accounting.guarantee._FEW", request.param)
    forget()
    yield request.param
    forget()


def test_epsilon_is_one_number_at_every_door(release, tmp_path, few):
    """One by one, and on the contour that many ways share."""

    def answer(*arguments):
        found = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    run_release(load_plan(release), tmp_path / "out", test_key=None)
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    exact = manifest["privacy"]["exact"]
    assert ("shared" in exact["engines"]) is (few == 1)
    delta, epsilon = exact["delta"], exact["epsilon"]
    assert manifest["privacy"]["epsilon"] == epsilon["upper"]
    assert answer("plan", release, "--read-geography")["privacy"]["exact"]["epsilon"] == epsilon
    assert answer("account", "total", tmp_path / "out", "--delta", delta)["epsilon"] == epsilon
    assert answer("account", "epsilon", "--plan", release, "--delta", delta)["epsilon"] == epsilon
    joint = joint_cost(read_joint([tmp_path / "out"]), Fraction(delta))  # programmes and publications
    assert joint["exact_epsilon"] == epsilon
    write_report(tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert claim_text(epsilon["upper"], 3) in page


def dense_variances(plan, spine, level, query) -> np.ndarray:
    """Variance of every geounit's answers by the definition; infinite without a measurement."""
    shares = oracle_shares(spine, [share for _, share in plan.strategy.geolevel_shares])[level]
    query_share = dict(dict(plan.strategy.query_shares)[spine.geolevels[level]])[query]
    # Bounded neighbours: variance 1 / rho; the discrete law has a little less.
    return np.array([float(1 / (plan.strategy.total * s * query_share)) if s else np.inf for s in shares])


def stored(out, spine, level, query) -> tuple[dict[int, np.ndarray], np.ndarray]:
    """Values by geounit, and variances, as the files have them."""
    folder = out / "measurements" / spine.geolevels[level] / query.replace("*", ".")
    frame = pl.read_parquet(folder / "*.parquet")
    rows = spine.locate(level, frame["geocode"])
    variances = np.full(spine.n_geounits(level), np.inf)
    variances[rows] = frame["variance"].to_numpy()
    return {int(g): np.array(v) for g, v in zip(rows, frame["values"], strict=True)}, variances


def test_files_hold_the_measured_geounits_alone_with_their_own_variances(release, outcome):
    plan, spine = load_plan(release), read_geography(outcome.path)
    for level in range(3):
        for query in plan.strategy.queries(spine.geolevels[level]):
            values, variances = stored(outcome.path, spine, level, query)
            wanted = dense_variances(plan, spine, level, query)
            assert set(values) == set(np.flatnonzero(np.isfinite(wanted)).tolist())
            np.testing.assert_allclose(variances, wanted, rtol=2e-4)  # discrete laws of variance 1 and more


@pytest.mark.parametrize("kept", ["full", nightly("support")])
def test_every_family_is_estimated_with_the_variances_of_its_children(edit, release, tmp_path, kept):
    """Each family solved by itself, with a dense row of variances read from the files, gives the published counts."""
    edit("[estimation.passes]", '[estimation]\nvalues = "own"\n\n[estimation.passes]')
    plan = load_plan(edit("[outputs]\n", f'[outputs]\nmeasurements = "{kept}"\n'))
    out = run_release(plan, tmp_path / "out", test_key=KEY).path
    spine = read_geography(out)
    bounds = read_public(plan).bounds
    constraints = compile_constraints(
        plan, read_release_hierarchies(out), read_histograms(plan, spine), bounds
    )
    source = StoredMeasurements(out, spine, read_shares(out, spine))
    distinct = 0
    for level in range(3):
        published = read_histogram(out, spine.geolevels[level], plan.schema, spine)
        above = read_histogram(out, spine.geolevels[level - 1], plan.schema, spine) if level else None
        for parent in range(spine.n_geounits(max(level - 1, 0))):
            problem = oracle_problem(plan, spine, source, constraints, level, parent, above)
            distinct += any(len(set(one.variances)) > 1 for one in problem.measured)
            found = estimate_family(problem).counts
            start = parent if not level else int(spine.child_offsets[level - 1][parent])
            for row, geounit in enumerate(range(start, start + len(found))):
                cells, counts = published.entries(geounit)
                assert dict(zip(cells.tolist(), counts.tolist(), strict=True)) == {
                    int(problem.support[c]): int(n) for c, n in enumerate(found[row]) if n
                }
    assert distinct  # some siblings differ


def oracle_problem(plan, spine, source, constraints, level, parent, above) -> FamilyProblem:
    if above is None:
        cells = np.arange(plan.schema.size)
        support, counts, start, stop = cells[plan.schema.possible(cells)], None, parent, parent + 1
    else:
        support, counts = above.entries(parent)
        start, stop = map(int, spine.child_offsets[level - 1][parent : parent + 2])
    settings = plan.estimation_of(spine.geolevels[level])
    trivial = counts is not None and (stop - start == 1 or len(support) == 0)

    def labels(name):
        found, column = np.unique(plan.query(name).answers_of(support), return_inverse=True)
        assert not len(found) or found[0] >= 0
        return column.reshape(-1).astype(np.int32), found

    measured = []
    for name in () if trivial else plan.strategy.queries(spine.geolevels[level]):
        column, answers = labels(name)
        noisy = source.measure(spine.geolevels[level], name, start, stop, answers)
        variances = np.array(
            [
                plan.strategy.law(spine.geolevels[level], name, share).variance_float()
                for share in oracle_shares(spine, [s for _, s in plan.strategy.geolevel_shares])[level][
                    start:stop
                ]
            ]
        )
        np.testing.assert_allclose(noisy.variances, variances, rtol=1e-12)
        measured.append(MeasuredQuery(name, column, noisy.values, variances))
    return FamilyProblem(
        geocode=str(spine.geocodes[max(level - 1, 0)][parent]),
        geolevel=spine.geolevels[max(level - 1, 0)],
        children=tuple(str(code) for code in spine.geocodes[level][start:stop]),
        support=support,
        parent_counts=counts,
        measured=tuple(measured),
        constraints=tuple(t.on_support(level, start, stop, support) for t in constraints if t.reaches(level)),
        passes=(EstimationPass(()),)
        if trivial
        else tuple(EstimationPass(names, float(settings.slack)) for names in settings.passes),
        rounding=tuple(
            RoundingStage(tuple((name, labels(name)[0]) for name in stage), target=settings.target)
            for stage in settings.rounding
        ),
    )


def test_noise_where_the_variance_is_unchanged_is_unchanged(release):
    """The same key: other geounits' answers are what they are without bypassing; none is told of a single child."""
    plan = load_plan(release)
    made = read_hierarchies(plan)
    histograms = read_histograms(plan, made.spine)
    plain, bypassed = (
        Measurer(
            histograms, plan.schema, allocation_of(plan.strategy, made.spine, shares), NoiseSource(bytes(32))
        )
        for shares in (None, made.shares)
    )
    shares = oracle_shares(made.spine, [share for _, share in plan.strategy.geolevel_shares])
    changed = 0
    for level, geolevel in enumerate(made.spine.geolevels):
        own = dict(plan.strategy.geolevel_shares)[geolevel]
        n = made.spine.n_geounits(level)
        for number, query in enumerate(plan.strategy.queries(geolevel)):
            group = plan.query(query)
            for answers in (np.arange(group.size), np.arange(group.size)[1:]):
                one, two = (m.measure(geolevel, query, 0, n, answers) for m in (plain, bypassed))
                for g in range(n):
                    if shares[level][g] == own:
                        assert np.array_equal(one.values[g], two.values[g])
                    elif shares[level][g]:
                        law = plan.strategy.law(geolevel, query, shares[level][g])
                        truth = histograms[level].answers(group, g, g + 1)[0]
                        noise = NoiseSource(bytes(32)).dense(law, level, number, [g], group.size)[0]
                        assert np.array_equal(two.values[g], (truth + noise)[answers])
                        changed += 1
                    else:
                        assert not two.values[g].any()
                        assert np.isinf(two.variances[g])
    assert changed


def dense_gls(plan, out, spine, zero):
    """Estimates and covariance of every block's cells from all rows of the files, invariants held exactly."""
    cells = np.arange(plan.schema.size)
    free = np.array(
        [[plan.schema.possible(np.array([c]))[0] and not zero[b, c] for c in cells] for b in range(len(zero))]
    )
    place = np.full(free.shape, -1)
    place[free] = np.arange(free.sum())
    rows, values, weights, exact, sums = [], [], [], [], []
    for level in range(spine.n_levels):
        ancestors = spine.ancestors(level)
        for query in plan.strategy.queries(spine.geolevels[level]):
            held, variances = stored(out, spine, level, query)
            group = plan.query(query)
            of = group.answers_of(cells)
            for g, noisy in held.items():
                for answer in range(group.size):
                    row = np.zeros(free.sum())
                    row[
                        place[np.ix_(ancestors == g, of == answer)][
                            free[np.ix_(ancestors == g, of == answer)]
                        ]
                    ] = 1
                    rows.append(row), values.append(noisy[answer]), weights.append(1 / variances[g])
    top = spine.ancestors(0)
    published = read_histogram(out, spine.geolevels[0], plan.schema, spine)
    for g in range(spine.n_geounits(0)):
        row = np.zeros(free.sum())
        row[place[top == g][free[top == g]]] = 1
        exact.append(row), sums.append(published.entries(g)[1].sum())
    a, e = np.array(rows), np.array(exact)
    particular = np.linalg.lstsq(e, np.array(sums, float), rcond=None)[0]
    basis = np.linalg.svd(e)[2][len(e) :].T
    w = np.array(weights)
    inside = np.linalg.inv(basis.T @ (a.T * w) @ a @ basis)
    estimate = particular + basis @ inside @ (basis.T @ (a.T * w) @ (np.array(values) - a @ particular))
    return place, estimate, basis @ inside @ basis.T


def test_intervals_follow_from_all_geounits_own_variances(release, outcome):
    make_intervals(outcome.path, tables=["total", "age"], workers=1)
    plan, spine = load_plan(release), read_geography(outcome.path)
    facilities = pl.read_parquet(release.parent / "barracks.parquet")
    home = plan.query("home")
    known = np.ones((spine.n_geounits(2), 2), dtype=bool)
    known[
        spine.locate(2, facilities["geocode"]),
        home.answers_from_labels({"home": facilities["home"].to_list()}, facilities.height),
    ] = False
    zero = known[:, home.answers_of(np.arange(plan.schema.size))]
    place, estimate, covariance = dense_gls(plan, outcome.path, spine, zero)
    for level, geolevel in enumerate(spine.geolevels):
        for query in ("total", "age"):
            frame = pl.read_parquet(
                outcome.path / "intervals" / f"geolevel={geolevel}" / f"query={query}" / "*.parquet"
            )
            group, ancestors = plan.query(query), spine.ancestors(level)
            of = group.answers_of(np.arange(plan.schema.size))
            found = iter(frame.iter_rows(named=True))
            for g in range(spine.n_geounits(level)):
                for answer in range(group.size):
                    columns = place[np.ix_(ancestors == g, of == answer)]
                    columns = columns[columns >= 0]
                    row = next(found)
                    assert row["estimate"] == pytest.approx(estimate[columns].sum(), abs=1e-6)
                    variance = covariance[np.ix_(columns, columns)].sum()
                    assert row["standard_error"] == pytest.approx(max(variance, 0) ** 0.5, abs=1e-5)


def test_the_finished_release_and_its_plan_have_one_model(release, outcome):
    opened, made = open_release(outcome.path), read_hierarchies(load_plan(release))
    one, two = release_model(opened), plan_model(load_plan(release), made)
    for a, b in zip(one.levels, two.levels, strict=True):
        np.testing.assert_array_equal(a.precisions, b.precisions)
    plan = load_plan(release)
    stored_rows = StoredRows(outcome.path, one)
    source = StoredMeasurements(outcome.path, made.spine, made.shares)
    for level, name in enumerate(made.spine.geolevels):
        groups = [plan.query(query) for query in plan.strategy.queries(name)]
        for start, stop in ((0, made.spine.n_geounits(level)), (1, 2), (1, 3)):
            measured = [
                source.measure(name, group.name, start, stop, np.arange(group.size)).values
                for group in groups
            ]
            np.testing.assert_array_equal(stored_rows.rows(level, groups, start, stop), np.hstack(measured))
    answers = district_answers(outcome.path, pl.Series(["P0100", "R0102"]), tables=["total"])
    assert answers is not None


def test_measurements_without_their_shares_are_refused(outcome):
    spine = read_geography(outcome.path)
    with pytest.raises(StoreError, match="another geography"):
        StoredMeasurements(outcome.path, spine).measure("Block", "total", 0, 1, np.array([0]))


def test_the_report_says_it(outcome):
    page = write_report(outcome.path).read_text()
    assert "it is measured once, at the upper geolevel" in page
    assert "So 5 geounits have no measurement" in page


def test_laplace_noise_bypasses_by_theorem_2_and_the_tree_changes(release, tmp_path):
    """A town of few blocks gives its budget to them; the roots, too."""
    release.write_text(laplace(release.read_text()))
    plan = load_plan(release)
    made = read_hierarchies(plan)
    assert made.shares is not None
    assert made.spine.n_geounits(1) > made.original.n_geounits(1)
    out = run_release(plan, tmp_path / "out", test_key=KEY)
    assert epsilon_of(event_from_mapping(out.manifest.event)) == 2
    assert out.manifest.body["spine"]["bypassing"]["rule"] == "pure_dp"
    assert out.manifest.privacy["exact"]["epsilon"]["upper"] <= 2 + 1e-9
    # What attackers are bounded by is that of the spine as it is, and not of one on which nothing is bypassed.
    (tmp_path / "attack.toml").write_text(
        'published = "out"\nkey = "x"\n[attacks]\nsensitive = "age"\npeople = 200\n'
    )
    bound = attack(tmp_path / "attack.toml", tmp_path / "claims", None, print).certificate.advantage
    proved, without = (
        compose(event, neighbours=plan.neighbours).advantage().upper
        for event in (event_from_mapping(out.manifest.event), plan.event())
    )
    assert bound == proved != without
    towns = pl.read_parquet(out.path / "tables" / "geolevel=Town" / "query=total" / "*.parquet")
    assert sorted(towns["geocode"]) == ["P00", "P01", "P02", "P03", "Q00", "R01"]
    blocks = pl.read_parquet(out.path / "histogram" / "Block.parquet")
    sums = blocks.group_by(pl.col("geocode").str.head(3)).agg(pl.col("count").sum())
    assert (
        dict(sums.filter(pl.col("count") > 0).rows()).items()
        <= dict(towns.select("geocode", "count").rows()).items()
    )


def test_a_release_that_spares_every_query_costs_the_same_and_says_so(release, tmp_path):
    release.write_text(laplace(release.read_text()).replace("bypass = true", 'bypass = "every_query"'))
    out = run_release(load_plan(release), tmp_path / "out", test_key=KEY)
    record = out.manifest.body["spine"]["bypassing"]
    assert record["rule"] == "every_query"
    assert sum(level["not_measured"] for level in record["geolevels"]) > 0
    assert epsilon_of(event_from_mapping(out.manifest.event)) == 2
    assert "without a greater variance of any query" in write_report(out.path).read_text()


@pytest.mark.nightly
def test_geounits_with_more_children_than_the_limit_are_not_bypassed(release, tmp_path):
    text = laplace(release.read_text())
    release.write_text(text)
    free = read_hierarchies(load_plan(release))
    assert "bypass = true" in text
    release.write_text(text.replace("bypass = true", "bypass = true\nmost_children = 1"))
    plan = load_plan(release)
    limited = read_hierarchies(plan)
    assert limited.spine.n_geounits(1) == limited.original.n_geounits(1) < free.spine.n_geounits(1)
    out = run_release(plan, tmp_path / "out", test_key=KEY)
    assert out.manifest.body["plan"]["spine"]["most_children"] == 1
    assert open_release(out.path).hierarchies.shares is not None


def test_an_invariant_of_bypassed_geounits_is_refused(release):
    text = laplace(release.read_text())
    release.write_text(text + '\n[[invariants]]\nquery = "total"\ngeolevels = ["Town"]\n')
    with pytest.raises(GeographyError) as caught:
        read_hierarchies(load_plan(release))
    assert caught.value.code == "not-on-spine"


def test_a_spine_that_overspends_stops_the_run_before_anything_is_written(release, tmp_path, monkeypatch):
    import tallyveil.products.topdown.run.spine_making as module
    from tallyveil.geography.bypass import bypass
    from tallyveil.geography.spine import GeounitShares

    def wrong(spine, shares, rule, **options):
        made, kept = bypass(spine, shares, rule, **options)
        positions = [one.copy() for one in kept.positions]
        positions[2][:] = len(kept.values) - 1
        return made, GeounitShares(kept.values, tuple(positions))

    monkeypatch.setattr(module, "bypass", wrong)
    with pytest.raises(BudgetError) as caught:
        run_release(load_plan(release), tmp_path / "out", test_key=KEY)
    assert caught.value.code == "overspent-path"
    assert not (tmp_path / "out").exists()


def test_bypass_false_or_nothing_asked_is_told(edit, release):
    with pytest.raises(ConfigError, match="the table has no effect"):
        load_plan(edit("bypass = true", "bypass = false"))


def test_a_plan_knows_the_exact_epsilon_once_it_opens_the_geography(release, outcome):
    plan = load_plan(release)
    made = read_hierarchies(plan)
    closed = plan_record(plan)["privacy"]["exact"]
    assert closed["epsilon"]["upper"] == plan_record(plan)["privacy"]["epsilon"]
    opened = plan_record(plan, None, allocation_of(plan.strategy, made.spine, made.shares))["privacy"][
        "exact"
    ]
    assert opened == outcome.manifest.privacy["exact"]
    assert opened["epsilon"]["upper"] < closed["epsilon"]["upper"]


def contents(out) -> dict[str, bytes]:
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


@pytest.mark.nightly
def test_killed_resumed_or_shared_among_threads_it_is_the_same_release(release, tmp_path, killed_at):
    plan = load_plan(release)
    expected = contents(run_release(plan, tmp_path / "whole", test_key=KEY, workers=1).path)
    assert contents(run_release(plan, tmp_path / "threads", test_key=KEY, workers=3).path) == expected
    for number in (8, 22):
        out = tmp_path / f"killed-{number}"
        assert killed_at(number, lambda out=out: run_release(plan, out, test_key=KEY))
        assert contents(run_release(plan, out, test_key=KEY).path) == expected


def test_accounting_for_the_release_file_knows_the_paths(release, outcome):
    asked = ["account", "epsilon", "--plan", str(release), "--delta", "1e-10", "--json"]
    result = CliRunner().invoke(app, asked)
    assert result.exit_code == 0, result.output
    exact = outcome.manifest.privacy["exact"]["epsilon"]
    assert json.loads(result.output)["epsilon"] == exact
