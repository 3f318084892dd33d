"""With noise of zero the tables equal an independent, slow tabulation; with noise, that plus the addressed noise."""

from collections import Counter

import polars as pl
import pytest
from tests import toy_country as toy
from tests.samples import few, nightly

from tallyveil.noise import NoiseSource, insecure_key
from tallyveil.products.safetab.public.regions import tabulate_all, tabulate_once
from tallyveil.products.safetab.run.run import measurer_of, read_safetab_inputs, tables_of

HUGE = 10**9
FORCED = {0: [HUGE] * 3, 1: [-HUGE, HUGE, HUGE], 2: [-HUGE, -HUGE, HUGE], 3: [-HUGE] * 3}


def everywhere(thresholds):
    return {f"({g}, {level})": thresholds for g in toy.US + toy.PR for level in (1, 2)}


def tables(params, data, noise, once=False):
    """T1 and T2 of every run, one frame each."""
    inputs = read_safetab_inputs(params, data)
    t1, t2 = [], []
    for run in inputs.plan.runs:
        regions = inputs.regions[run.run]
        tabulation = (tabulate_once if once else tabulate_all)(run.sets, regions)
        found = tables_of(run, inputs.plan, regions, measurer_of(inputs, run.run, noise), tabulation)
        t1.append(found[0])
        t2.append(found[1])
    return pl.concat(t1), pl.concat(t2)


def counts_of(frame, column="COUNT"):
    names = [name for name in ("REGION_ID", "REGION_TYPE", "ITERATION_CODE") if name in frame.columns]
    names += [name for name in ("AGESTART", "AGEEND", "SEX") if name in frame.columns]
    rows = frame.select([*names, column]).rows()
    found = {row[:-1]: row[-1] for row in rows}
    assert len(found) == len(rows)
    return found


def expected_t2(truth, detail, groups):
    """T2 of these groups with this detail, in plain Python."""
    starts = toy.STARTS[detail]
    spans = [(a, b - 1) for a, b in zip(starts, (*starts[1:], 116), strict=True)]
    found = {}
    for region, geography, iteration in groups:
        if toy.total_only(iteration):
            continue
        people = truth.people.get((region, geography, iteration), Counter())
        for sex in "12":
            for first, last in spans:
                n = sum(k for (s, age), k in people.items() if s == sex and first <= age <= last)
                found[region, geography, iteration, str(first), str(last), sex] = n
            found[region, geography, iteration, "*", "*", sex] = sum(
                k for (s, _), k in people.items() if s == sex
            )
    return found


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("detail", few(2, [0, 1, 2, 3]))
def test_without_noise_every_group_of_both_runs_has_its_true_counts(tmp_path, detail, once):
    params = toy.write_params(
        tmp_path / "p", thresholds_p=everywhere(FORCED[detail]), zero_suppression_chance=None
    )
    persons = toy.person_rows(1500)
    data = toy.write_data(tmp_path / "d", persons)
    truth = toy.slow_tabulation(persons)
    t1, t2 = tables(params, data, toy.SilentNoise(), once)
    wanted = {group: truth.t1[group] for group in truth.groups}
    assert counts_of(t1) == wanted
    assert counts_of(t1, "ESTIMATE") == wanted or detail in (1, 2, 3)
    assert counts_of(t2) == (expected_t2(truth, detail, truth.groups) if detail else {})


def test_mixed_details_follow_the_true_counts(tmp_path, params):
    persons = toy.person_rows(2500)
    data = toy.write_data(tmp_path / "d", persons)
    truth = toy.slow_tabulation(persons)
    t1, t2 = tables(params, data, toy.SilentNoise())
    seen = {row[:3]: row[3] for row in t1.select(*t1.columns[:3], "DETAIL").rows()}
    names = ("total", "sex by 4 ages", "sex by 9 ages", "sex by 23 ages")
    assert set(seen.values()) == {*names, "total only"}
    for group, detail in seen.items():
        if detail != "total only":
            assert detail == names[sum(truth.t1[group] >= bound for bound in (60, 200, 600))]
    for number, name in enumerate(names[1:], start=1):
        groups = {group for group, detail in seen.items() if detail == name}
        own = {key: n for key, n in counts_of(t2).items() if key[:3] in groups}
        assert own == expected_t2(truth, number, groups)


def test_suppression_keeps_small_totals_below_the_state_unpublished(tmp_path, params):
    persons = toy.person_rows(2500)
    data = toy.write_data(tmp_path / "d", persons)
    truth = toy.slow_tabulation(persons)
    inputs = read_safetab_inputs(params, data)
    bounds = {(one.geography, one.level): one.keep_above for run in inputs.plan.runs for one in run.sets}
    t1, _ = tables(params, data, toy.SilentNoise())
    found = counts_of(t1)
    for group in truth.groups:
        bound = bounds[group[1], int(group[2][0])]
        kept = bound is None or toy.total_only(group[2]) or truth.t1[group] > bound
        coarse = group[2] in ("2301", "2302")
        assert (group in found) == (truth.t1[group] > bound if coarse and bound is not None else kept)


@pytest.mark.parametrize("mechanism", ["zcdp", nightly("puredp")])
def test_a_total_is_the_truth_plus_the_noise_at_its_documented_address(tmp_path, mechanism):
    from tallyveil.products.safetab.public.addresses import CELLS_APART, GEOLEVELS, query_number

    params = toy.write_params(tmp_path / "p", privacy_defn=mechanism, zero_suppression_chance=None)
    persons = toy.person_rows(2000)
    data = toy.write_data(tmp_path / "d", persons)
    truth = toy.slow_tabulation(persons)
    noise = NoiseSource(insecure_key("addresses"))
    t1, t2 = tables(params, data, noise)
    inputs = read_safetab_inputs(params, data)
    found, cells = counts_of(t1), counts_of(t2)
    tabled = {key[:3] for key in cells}
    n_tables = 0
    for run in inputs.plan.runs:
        for one in run.sets:
            names = inputs.regions[run.run].names(one.geography).to_list()
            for place, iteration in enumerate(one.view.codes):
                for region, name in enumerate(names):
                    group = name, one.geography, iteration
                    geolevel = GEOLEVELS[one.geography]
                    if place >= one.view.n_adaptive:
                        law, measured, answer = one.total_only, 1, place - one.view.n_adaptive
                    else:
                        law, measured, answer = one.stage_2, 2, place
                    if group in tabled:
                        n_tables += 1
                        y1 = truth.t1[group] + int(
                            noise.at(one.stage_1, geolevel, query_number(one.level, 0), [region], [place])[0]
                        )
                        detail = sum(y1 >= bound for bound in one.thresholds)
                        assert detail
                        starts = toy.STARTS[detail]
                        last = str(starts[1] - 1)
                        drawn = noise.at(
                            one.stage_2,
                            geolevel,
                            query_number(one.level, 2 + detail),
                            [region],
                            [place * CELLS_APART + len(starts)],
                        )
                        true = sum(
                            k
                            for (s, age), k in truth.people.get(group, Counter()).items()
                            if s == "2" and age < starts[1]
                        )
                        assert cells[(*group, "0", last, "2")] == true + int(drawn[0])
                        continue
                    drawn = noise.at(law, geolevel, query_number(one.level, measured), [region], [answer])
                    assert found[group] == truth.t1[group] + int(drawn[0])
    assert n_tables > 20


def test_clamping_raises_every_cell_before_the_sums(tmp_path):
    thresholds = everywhere(FORCED[1])
    data = toy.write_data(tmp_path / "d", toy.person_rows(30))
    noise = NoiseSource(insecure_key("clamp"))
    kept = tables(toy.write_params(tmp_path / "a", thresholds_p=thresholds), data, noise)
    raised = tables(
        toy.write_params(tmp_path / "b", thresholds_p=thresholds, allow_negative_counts=False), data, noise
    )
    before, after = counts_of(kept[1]), counts_of(raised[1])
    assert min(before.values()) < 0 <= min(after.values())
    cells = {key: n for key, n in after.items() if key[3] != "*"}
    assert all(n == max(before[key], 0) for key, n in cells.items())
    totals = Counter()
    for key, n in cells.items():
        totals[key[:3]] += n
    t1 = counts_of(raised[0])
    assert all(t1[group] == n for group, n in totals.items())
    assert raised[0]["ESTIMATE"].min() >= 0


def test_any_chunking_gives_the_same_tables(tmp_path, params, data, monkeypatch):
    from tallyveil.products.safetab.confidential import measure as safetab_measure

    noise = NoiseSource(insecure_key("chunks"))
    whole = tables(params, data, noise)
    monkeypatch.setattr(safetab_measure, "GROUPS_AT_ONCE", 1)
    monkeypatch.setattr(safetab_measure, "ANSWERS_AT_ONCE", 100)
    parts = tables(params, data, noise)
    for a, b in zip(whole, parts, strict=True):
        assert a.sort(a.columns).equals(b.sort(b.columns))


def test_coterminous_regions_share_one_measurement(tmp_path, params, data):
    noise = NoiseSource(insecure_key("twins"))
    once, _ = tables(params, data, noise, once=True)
    found = counts_of(once)
    state = {key[2]: n for key, n in found.items() if key[:2] == ("11", "STATE")}
    for region, geography in (("11001", "COUNTY"), ("1150000", "PLACE")):
        own = {key[2]: n for key, n in found.items() if key[:2] == (region, geography)}
        shared = {code: n for code, n in own.items() if code in state and not code.startswith("23")}
        # Level 2 has an iteration that only sub-state regions have, so there they measure for themselves.
        assert {c: n for c, n in shared.items() if c[0] == "1"} == {
            c: n for c, n in state.items() if c[0] == "1" and c in shared
        }
    marked = once.filter(pl.col("SAME_AS") != "")
    assert set(marked["REGION_TYPE"]) <= {"COUNTY", "PLACE", "PR-COUNTY", "PR-PLACE", "TRACT", "AIANNH"}
    assert ("11001", "STATE") in set(marked.select("REGION_ID", "SAME_AS").rows())
    apart, _ = tables(params, data, noise)
    assert not apart.filter(pl.col("SAME_AS") != "").height


def test_geographies_and_runs_without_regions_or_people(tmp_path, params):
    """No tribal area, and nobody in Puerto Rico."""
    persons = [row for row in toy.person_rows(200) if row[3] != "72"]
    data = toy.write_data(tmp_path / "d", persons)
    path = data / "GRF-C.txt"
    path.write_text(path.read_text().replace("|0020", "|9999"))
    t1, _ = tables(params, data, toy.SilentNoise(), once=True)
    assert "AIANNH" not in set(t1["REGION_TYPE"])
    assert t1.filter(pl.col("REGION_TYPE") == "PR-STATE")["COUNT"].to_list() == [0] * 15


def test_a_region_that_takes_numbers_chooses_its_detail_with_its_own_thresholds(tmp_path):
    """The state has low thresholds, its one county high ones: the county's cells are sums of the state's."""
    thresholds = everywhere([20, 40, 60]) | {
        f"({g}, {level})": [40, 60, 10**6] for g in ("COUNTY", "PLACE") for level in (1, 2)
    }
    params = toy.write_params(tmp_path / "p", thresholds_p=thresholds, run_pr=False)
    data = toy.write_data(tmp_path / "d", toy.person_rows(3000))
    t1, t2 = tables(params, data, NoiseSource(insecure_key("own thresholds")), once=True)
    twin = pl.col("SAME_AS") == "STATE"
    assert t1.filter(twin).height
    both = t1.filter(twin, pl.col("REGION_TYPE") == "COUNTY").join(
        t1.filter(pl.col("REGION_TYPE") == "STATE", pl.col("REGION_ID") == "11"), on="ITERATION_CODE"
    )
    pairs = {(state, county) for county, state in both.select("DETAIL", "DETAIL_right").rows()}
    order = {"total": 0, "sex by 4 ages": 1, "sex by 9 ages": 2, "sex by 23 ages": 3}
    assert all(order[county] <= order[state] for state, county in pairs)
    assert any(order[county] < order[state] for state, county in pairs)
    assert "sex by 23 ages" not in set(both["DETAIL"])
    assert both["COUNT"].equals(both["COUNT_right"])
    of_county = t2.filter(pl.col("REGION_TYPE") == "COUNTY", twin)
    of_state = t2.filter(
        pl.col("REGION_TYPE") == "STATE", pl.col("REGION_ID") == "11", pl.col("AGESTART") != "*"
    )
    columns = ("ITERATION_CODE", "SEX", "AGESTART", "AGEEND", "COUNT")
    cells: dict = {}
    for code, sex, first, last, count in of_state.select(columns).rows():
        cells.setdefault((code, sex), []).append((int(first), int(last), count))
    for code, sex, start, end, count in of_county.select(columns).rows():
        first, last = (0, 200) if start == "*" else (int(start), int(end))
        inside = [n for a, b, n in cells.get((code, sex), []) if first <= a and b <= last]
        assert sum(inside) == count, (code, start, end, sex)


def test_a_region_with_a_lower_threshold_than_its_twin_is_measured_by_itself(tmp_path):
    thresholds = everywhere([60, 200, 600]) | {"(COUNTY, 1)": [50, 200, 600]}
    params = toy.write_params(tmp_path / "p", thresholds_p=thresholds, run_pr=False)
    data = toy.write_data(tmp_path / "d", toy.person_rows(300))
    t1, _ = tables(params, data, NoiseSource(insecure_key("lower")), once=True)
    county = t1.filter(pl.col("REGION_TYPE") == "COUNTY", pl.col("ITERATION_CODE").str.starts_with("1"))
    assert "STATE" not in set(county["SAME_AS"])


def test_raised_counts_are_within_their_margins(tmp_path):
    """Where negative cells are raised to 0, sums of empty groups lie far above 0, and their margins say so."""
    thresholds = everywhere(FORCED[3])
    params = toy.write_params(
        tmp_path / "p", thresholds_p=thresholds, allow_negative_counts=False, run_pr=False
    )
    persons = toy.person_rows(30)
    truth = toy.slow_tabulation(persons, toy.US)
    t1, _ = tables(params, toy.write_data(tmp_path / "d", persons), NoiseSource(insecure_key("raised")))
    rows = t1.filter(pl.col("DETAIL") != "total only").select(*t1.columns[:3], "COUNT", "MARGIN").rows()
    inside = [
        abs(count - truth.t1[(region, kind, code)]) <= margin for region, kind, code, count, margin in rows
    ]
    assert sum(inside) > 0.9 * len(inside)
