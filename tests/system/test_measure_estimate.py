"""Measurements in one folder, a release estimated from them in another: the counts are those of a run in one go."""

import json
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
import pytest
from tests.samples import nightly

from tallyveil.accounting.ledger.file import Ledger, read_ledger
from tallyveil.errors import ConfigError, SchemaError, StoreError
from tallyveil.files.finished import ledger_record
from tallyveil.files.manifest_files import read_manifest
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_estimation, load_plan
from tallyveil.postprocess.estimate import estimate_release
from tallyveil.postprocess.measured import open_measurements, read_constraints
from tallyveil.products.topdown.run.run import measure_release, run_release
from tallyveil.storage.json_files import digest_of
from tallyveil.storage.write import file_digest

from .test_release_spine import SHARES, SPINE, write_entities

KEY = insecure_key("apart")
SUBSPACE = '[[subspace]]\nquery = "total"\ngeolevel = "Town"\nrho = "1/4"\n\n[[bounds]]'
ONE_PASS = '[estimation.passes]\n"*" = [["*"]]\n'


def assert_same_numbers(one: Path, other: Path) -> None:
    """Every published table of two folders holds the same rows in the same order."""
    names, others = ({p.relative_to(r).as_posix() for p in r.rglob("*.parquet")} for r in (one, other))
    assert names == others
    assert any(name.startswith("microdata/") for name in names)
    for name in names:
        assert pl.read_parquet(one / name).equals(pl.read_parquet(other / name)), name


def estimate(measured: Path, out: Path, estimation=None):
    return estimate_release(open_measurements(measured), out, estimation, workers=2)


@pytest.fixture(scope="module")
def measured_once(make_small_inputs, tmp_path_factory):
    """Measurements, for copies alone."""
    folder = tmp_path_factory.mktemp("measured")
    release = make_small_inputs(folder / "inputs")
    return measure_release(load_plan(release), folder / "measured", test_key=KEY).path


@pytest.fixture
def measured(measured_once, small_release, tmp_path):
    """Measurements; their records are gone."""
    shutil.copytree(small_release.parent, tmp_path / "copy")
    (small_release.parent / "people.parquet").unlink()
    return Path(shutil.copytree(measured_once, tmp_path / "measured"))


@pytest.fixture(scope="module")
def estimated_once(measured_once, tmp_path_factory):
    """A finished estimate of the measurements, for copies alone."""
    return estimate(measured_once, tmp_path_factory.mktemp("estimated") / "made").path


@pytest.fixture
def estimated(estimated_once, tmp_path):
    """A finished estimate, which a test may change."""
    return Path(shutil.copytree(estimated_once, tmp_path / "made"))


def with_spine(release: Path) -> None:
    write_entities(release.parent)
    text = release.read_text()
    start, stop = text.index("[strategy.geolevels]"), text.index('[strategy.queries."*"]')
    release.write_text(text[:start] + SHARES + text[stop:] + 'entities = ["place"]\n' + SPINE)


def with_bypassing(release: Path) -> None:
    """Two towns have a single block each."""
    folder = release.parent
    for name in ("geography", "people", "barracks"):
        frame = pl.read_parquet(folder / f"{name}.parquet")
        alone = pl.col("geocode").str.slice(0, 3).is_in(["P01", "Q02"])
        frame.filter(~alone | pl.col("geocode").str.ends_with("00")).write_parquet(folder / f"{name}.parquet")
    release.write_text(release.read_text() + "\n[spine]\nbypass = true\n")


def with_lattice(release: Path) -> None:
    text = release.read_text().replace("[[bounds]]", SUBSPACE)
    release.write_text(text.replace('rho = "2"', 'rho = "9/4"', 1))


def as_it_is(release: Path) -> None:
    """Change nothing."""


@pytest.mark.parametrize("change", [as_it_is, *map(nightly, (with_spine, with_bypassing, with_lattice))])
def test_estimating_measurements_gives_the_numbers_of_a_run(small_release, tmp_path, change):
    change(small_release)
    plan = load_plan(small_release)
    whole = run_release(plan, tmp_path / "whole", test_key=KEY)
    measured = measure_release(plan, tmp_path / "measured", test_key=KEY).path
    shutil.rmtree(small_release.parent)
    made = estimate(measured, tmp_path / "made")
    assert_same_numbers(whole.path, made.path)
    assert made.manifest.checks == whole.manifest.checks
    assert made.manifest.plan_digest == whole.manifest.plan_digest
    assert made.manifest.body["solver"] == whole.manifest.body["solver"]
    again = estimate(whole.path, tmp_path / "again")  # a run keeps what an estimate needs, too
    assert_same_numbers(whole.path, again.path)


def test_measurements_alone_are_finished_spent_and_hold_no_key(measured):
    assert {path.name for path in measured.iterdir()} == {
        "manifest.json", "plan.json", "ledger.jsonl", "geography.parquet",
        "bounds", "invariants", "measurements",
    }  # fmt: skip
    manifest = read_manifest(measured)
    assert manifest.kind == "topdown-measurements"
    assert str(manifest.spent.spent) == "2"
    assert {file.path.split("/")[0] for file in manifest.files} >= {"bounds", "invariants", "measurements"}
    exact = pl.read_parquet(measured / "invariants" / "00.parquet")
    assert exact.columns == ["geocode", "answer", "count"]
    assert exact["geocode"].to_list() == ["P", "Q"]


def test_an_estimate_spends_nothing_and_names_the_run_that_did(measured, tmp_path):
    before = {path: path.read_bytes() for path in measured.rglob("*") if path.is_file()}
    made = estimate(measured, tmp_path / "made")
    ledger = (measured / "ledger.jsonl").read_bytes()
    assert (made.path / "ledger.jsonl").read_bytes() == ledger
    source, own = read_manifest(measured), read_manifest(made.path)
    assert own.estimated_from is not None
    assert own.estimated_from["run"] == source.run != own.run
    assert own.estimated_from["ledger"] == {"lines": source.ledger.lines, "sha256": source.ledger.sha256}
    assert "post-processing" in own.estimated_from["statement"]
    assert own.privacy == source.privacy
    assert own.spent == source.spent
    assert not own.protected
    assert own.warnings == source.warnings
    assert not (made.path / "private").exists()
    assert {path: path.read_bytes() for path in measured.rglob("*") if path.is_file()} == before
    assert estimate(measured, made.path).already_finished


@pytest.mark.nightly
def test_a_protected_run_gives_a_protected_estimate(small_release, tmp_path):
    measured = measure_release(load_plan(small_release), tmp_path / "measured").path
    made = estimate(measured, tmp_path / "made")
    assert made.manifest.protected
    assert not made.manifest.warnings
    assert (
        made.manifest.run == estimate(measured, tmp_path / "other").manifest.run
    )  # it follows from public files


@pytest.mark.nightly
def test_the_command_needs_no_confidential_module(measured, tmp_path):
    script = (
        "import sys; from tallyveil.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        "print([m for m in sys.modules if m.startswith('tallyveil.confidential')])"
    )
    made = subprocess.run(
        [sys.executable, "-c", script, "estimate", measured, "--out", tmp_path / "made", "-q"],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert made.stdout.strip() == "[]"
    assert (tmp_path / "made" / "report.html").is_file()


@pytest.mark.parametrize("number", [*map(nightly, (1, 4, 7, 12)), 27])
def test_killed_at_any_write_it_goes_on(measured, estimated_once, tmp_path, killed_at, number):
    out = tmp_path / "killed"
    assert killed_at(number, lambda: estimate(measured, out))
    made = estimate(measured, out)
    assert made.manifest.digests == read_manifest(estimated_once).digests


def test_an_interrupted_estimate_refuses_other_settings(measured, tmp_path, killed_at):
    out = tmp_path / "made"
    assert killed_at(6, lambda: estimate(measured, out))
    (tmp_path / "one.toml").write_text(ONE_PASS)
    other = load_estimation(tmp_path / "one.toml", open_measurements(measured).plan)
    with pytest.raises(StoreError, match="drew no noise and spent nothing") as caught:
        estimate(measured, out, other)
    assert caught.value.code == "resume-changed"


@pytest.mark.nightly
def test_an_unfinished_estimate_and_an_unfinished_run_are_told_apart(measured, tmp_path, killed_at):
    """An estimate has no key and spends nothing; a run may have spent, and is never said to have not."""
    plan = load_plan(tmp_path / "copy" / "release.toml")
    out = tmp_path / "made"
    assert killed_at(6, lambda: estimate(measured, out))
    with pytest.raises(StoreError, match="unfinished estimate") as caught:
        run_release(replace(plan, name="other"), out)
    assert caught.value.code == "resume-changed"
    assert "spend" not in str(caught.value).replace("spent nothing", "")
    run = tmp_path / "run"
    assert killed_at(6, lambda: run_release(plan, run, test_key=KEY))
    with pytest.raises(StoreError, match="may have spent") as other:
        estimate(measured, run)
    assert other.value.code == "resume-changed"
    assert "remove" not in str(other.value)
    assert not run_release(plan, run, test_key=KEY).already_finished
    assert not estimate(measured, out).already_finished


@pytest.mark.parametrize(
    ("code", "harm"),
    [
        ("key-lost", lambda out: shutil.rmtree(out / "private")),
        ("ledger-damaged", lambda out: (out / "ledger.jsonl").unlink()),
    ],
)
def test_what_is_said_of_a_spoilt_estimate_speaks_of_no_spend(measured, tmp_path, killed_at, code, harm):
    out = tmp_path / "made"
    assert killed_at(6, lambda: estimate(measured, out))
    harm(out)
    with pytest.raises(StoreError, match="spends nothing") as caught:
        estimate(measured, out)
    assert caught.value.code == code
    assert "new spend" not in str(caught.value)


@pytest.mark.nightly
def test_two_processes_cannot_share_a_folder(measured, tmp_path, killed_at):
    from tallyveil.runs.folder import RunFolder

    out = tmp_path / "made"
    assert killed_at(6, lambda: estimate(measured, out))
    with RunFolder(out), pytest.raises(StoreError, match="another process"):
        estimate(measured, out)
    assert not estimate(measured, out).already_finished


@pytest.mark.nightly
def test_the_estimation_can_be_another_one(measured, estimated_once, tmp_path):
    (tmp_path / "one.toml").write_text(ONE_PASS)
    other = load_estimation(tmp_path / "one.toml", open_measurements(measured).plan)
    made = estimate(measured, tmp_path / "made", other)
    plan = json.loads((made.path / "plan.json").read_text())
    assert plan["estimation"]["Town"]["passes"] == [["total", "grown", "age*home"]]
    assert made.manifest.body["plan"] == plan
    assert made.manifest.plan_digest != read_manifest(measured).plan_digest
    counts = [pl.read_parquet(path / "histogram" / "Block.parquet") for path in (made.path, estimated_once)]
    assert not counts[0].equals(counts[1])
    with pytest.raises(StoreError, match="another plan"):
        estimate(measured, made.path)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('[estimation.passes]\n"*" = [["total"]]\n', "bad-passes"),
        ('[estimation.rounding]\n"*" = [["nothing"]]\n', "schema"),
        ("[estimate]\n", "bad-key-or-value"),
        ("estimation", "not-toml"),
    ],
)
def test_a_wrong_estimation_file_is_refused(measured, tmp_path, text, code):
    (tmp_path / "wrong.toml").write_text(text)
    with pytest.raises((ConfigError, SchemaError)) as caught:
        load_estimation(tmp_path / "wrong.toml", open_measurements(measured).plan)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "place",
    [
        "measurements/Block/age.home/part-00000.parquet",
        "measurements/Region/total/part-00000.parquet",
        "invariants/00.parquet",
        "bounds/00.parquet",
        "geography.parquet",
    ],
)
@pytest.mark.parametrize("harm", ["cut", "changed", "removed"])
def test_a_damaged_file_is_refused(measured, tmp_path, place, harm):
    path = measured / place
    data = path.read_bytes()
    path.unlink()
    if harm == "cut":
        path.write_bytes(data[:-9])
    elif harm == "changed":
        frame = pl.read_parquet(measured / "measurements" / "Town" / "total" / "part-00000.parquet")
        tags = pl.read_parquet_metadata(measured / "measurements" / "Town" / "total" / "part-00000.parquet")
        frame.write_parquet(path, metadata={key: text for key, text in tags.items() if "tallyveil" in key})
    with pytest.raises(StoreError) as caught:
        estimate(measured, tmp_path / "made")
    assert caught.value.code == "release-damaged"
    assert not (tmp_path / "made").exists()


def test_a_file_that_was_added_is_refused(measured):
    folder = measured / "measurements" / "Block" / "total"
    shutil.copy(folder / "part-00000.parquet", folder / "part-00001.parquet")
    with pytest.raises(StoreError, match="no file of the run"):
        open_measurements(measured)


def retold(folder: Path, **changes) -> None:
    """Change what a manifest says, with a digest that fits."""
    path = folder / "manifest.json"
    content = {**json.loads(path.read_text()), **changes}
    content["digest"] = digest_of({k: v for k, v in content.items() if k != "digest"}).hex()
    path.write_text(json.dumps(content))


@pytest.mark.nightly
def test_a_measurement_that_is_changed_once_the_folder_was_opened_is_refused(
    measured, estimated_once, tmp_path
):
    opened = open_measurements(measured)
    path = measured / "measurements" / "Block" / "total" / "part-00000.parquet"
    data, tags = path.read_bytes(), pl.read_parquet_metadata(path)
    other = pl.read_parquet(path).with_columns(pl.col("values").list.eval(pl.element() + 1000))
    other.write_parquet(path, metadata={key: text for key, text in tags.items() if "tallyveil" in key})
    with pytest.raises(StoreError, match="was changed or added") as caught:
        estimate_release(opened, tmp_path / "made", workers=2)
    assert caught.value.code == "release-damaged"
    path.write_bytes(data)
    made = estimate(measured, tmp_path / "made")  # what was made before the change is kept and right
    assert made.manifest.digests == read_manifest(estimated_once).digests


def test_measurements_of_a_test_key_do_not_pass_for_protected_ones(measured):
    """A ledger that was written again without the line of the test key does not make them so."""
    (_, spend), declaration = read_ledger(measured / "ledger.jsonl")[::-1]
    (measured / "ledger.jsonl").unlink()
    with Ledger(measured / "ledger.jsonl", declaration, spend.run) as ledger:
        ledger.spend(spend.event, spend.description, spend.token)
    retold(measured, protected=True, warnings=[], ledger=asdict(ledger_record(measured)))
    with pytest.raises(StoreError, match="insecure test key") as caught:
        open_measurements(measured)
    assert caught.value.code == "release-damaged"


def test_an_estimate_is_not_written_among_its_measurements(measured):
    before = sorted(measured.rglob("*"))
    with pytest.raises(StoreError, match="must stay as it was published"):
        estimate(measured, measured / "measurements" / "made")
    assert sorted(measured.rglob("*")) == before


def test_unfinished_measurements_are_refused_and_go_on(small_release, tmp_path, killed_at):
    plan, out = load_plan(small_release), tmp_path / "measured"
    whole = measure_release(plan, tmp_path / "whole", test_key=KEY)
    assert killed_at(7, lambda: measure_release(plan, out, test_key=KEY))
    with pytest.raises(StoreError) as caught:
        open_measurements(out)
    assert caught.value.code == "release-unfinished"
    with pytest.raises(StoreError, match="another plan"):
        run_release(plan, out, test_key=KEY)
    made = measure_release(plan, out, test_key=KEY)
    assert made.manifest.digests == whole.manifest.digests
    assert made.manifest.run == whole.manifest.run


def test_folders_of_other_commands_are_not_taken_for_ones_own(measured, estimated, small_run, tmp_path):
    plan = load_plan(tmp_path / "copy" / "release.toml")
    for act in (run_release, measure_release):
        with pytest.raises(StoreError) as caught:
            act(plan, estimated, test_key=KEY)
        assert caught.value.code == "folder-taken"
    with pytest.raises(StoreError, match="three different things"):
        run_release(plan, measured, test_key=KEY)
    with pytest.raises(StoreError, match="three different things"):
        estimate(measured, small_run)
    with pytest.raises(StoreError):
        estimate(measured, measured)


def test_too_few_measurements_are_refused(edit, tmp_path):
    plan = load_plan(edit('tables = ["total"', 'measurements = "support"\ntables = ["total"'))
    with pytest.raises(ConfigError) as caught:
        measure_release(plan, tmp_path / "measured", test_key=KEY)
    assert caught.value.code == "measure-full"
    assert not (tmp_path / "measured").exists()
    whole = run_release(plan, tmp_path / "whole", test_key=KEY).path
    with pytest.raises(StoreError) as missing:
        open_measurements(whole)
    assert missing.value.code == "measurements-missing"


def test_other_commands_say_that_measurements_have_no_counts(measured, command):
    words = ("evaluate", measured, "--truth", "x", "--i-understand-this-is-not-private")
    assert "measured-only" in command(*words, code=8)


@pytest.mark.nightly
def test_an_estimate_is_reported_evaluated_and_given_intervals_as_a_run(small_release, tmp_path, command):
    measured, made = tmp_path / "measured", tmp_path / "made"
    command("measure", small_release, "--out", measured, "-q")
    said = json.loads(command("estimate", measured, "--out", made, "--json").splitlines()[-1])
    assert said["estimated_from"]["run"] == read_manifest(measured).run
    command("intervals", made, "-q")
    truth = small_release.parent / "people.parquet"
    command("evaluate", made, "--truth", truth, "--i-understand-this-is-not-private", "-q")
    command("report", made, "-q")
    alone = json.loads(command("account", "total", measured, "--json"))
    both = json.loads(command("account", "total", measured, made, "--json"))
    assert both["epsilon"] == alone["epsilon"]  # what is spent once is counted once
    assert "not_covered" in both


def other_epsilon(measured: Path, factor: float) -> None:
    """State another exact epsilon wherever the manifest states it."""
    privacy = json.loads((measured / "manifest.json").read_text())["privacy"]
    exact = privacy["exact"]["epsilon"]
    exact["upper"] *= factor
    exact["lower"] = min(exact["lower"], exact["upper"])
    retold(measured, privacy={**privacy, "epsilon": exact["upper"], "statement": "epsilon is very small"})


def test_the_guarantee_of_an_estimate_follows_from_the_ledger(measured, tmp_path):
    """Another epsilon in the manifest, with a digest that fits: a smaller one is refused, a larger one left."""
    true = read_manifest(measured).privacy
    other_epsilon(measured, 2)
    assert estimate(measured, tmp_path / "made").manifest.privacy == true
    other_epsilon(measured, 1 / 4)
    with pytest.raises(StoreError, match="epsilon is at least") as caught:
        estimate(measured, tmp_path / "other")
    assert caught.value.code == "release-damaged"
    assert not (tmp_path / "other").exists()


def replanned(measured: Path, change) -> None:
    """Change the plan of a folder, with digests that fit."""
    manifest = json.loads((measured / "manifest.json").read_text())
    plan = manifest["body"]["plan"]
    change(plan)
    (measured / "plan.json").write_text(json.dumps(plan))
    files = [
        {**file, "sha256": file_digest(measured / "plan.json")} if file["path"] == "plan.json" else file
        for file in manifest["files"]
    ]
    retold(measured, body={**manifest["body"], "plan": plan}, plan_digest=digest_of(plan).hex(), files=files)


def other_shares(plan):
    plan["query_shares"]["Town"] |= {"total": "1/3", "grown": "1/6"}


def other_levels(plan):
    plan["geolevel_shares"] |= {"Region": "1/2", "Block": "1/4"}


def fewer_invariants(plan):
    plan["invariants"] = []


def other_zeros(plan):
    plan["schema"]["structural_zeros"][0]["cells"]["age"] = ["youth"]


@pytest.mark.parametrize("change", [other_shares, other_levels, fewer_invariants, other_zeros])
def test_a_plan_that_does_not_give_the_spend_of_the_ledger_is_refused(measured, change):
    replanned(measured, change)
    with pytest.raises(StoreError) as caught:
        open_measurements(measured)
    assert caught.value.code == "release-damaged"


@pytest.mark.parametrize(
    ("key", "other"),
    [("lines", 1), ("lines", 4), ("sha256", "0" * 64)],
)
def test_what_an_estimate_says_of_its_measurements_is_held_to_the_ledger(estimated, key, other):
    body = json.loads((estimated / "manifest.json").read_text())["body"]
    body["estimated_from"]["ledger"][key] = other
    retold(estimated, body=body)
    with pytest.raises(StoreError, match="estimated_from") as caught:
        read_manifest(estimated)
    assert caught.value.code == "release-damaged"


def test_an_estimate_of_itself_is_refused(estimated):
    manifest = json.loads((estimated / "manifest.json").read_text())
    retold(estimated, run=manifest["body"]["estimated_from"]["run"])
    with pytest.raises(StoreError, match="estimated_from"):
        read_manifest(estimated)


@pytest.mark.parametrize("place", ["bounds/00.parquet", "invariants/00.parquet", "geography.parquet"])
def test_a_file_that_changes_while_the_folder_is_opened_is_refused(measured, monkeypatch, place):
    def swapped(*given):
        found = read_constraints(*given)
        path = measured / place
        tags = {key: text for key, text in pl.read_parquet_metadata(path).items() if "tallyveil" in key}
        pl.read_parquet(path).reverse().write_parquet(path, metadata=tags)
        return found

    monkeypatch.setattr("tallyveil.postprocess.measured.read_constraints", swapped)
    with pytest.raises(StoreError, match="does not have the SHA-256") as caught:
        open_measurements(measured)
    assert caught.value.code == "release-damaged"


@pytest.mark.nightly
def test_drawn_counts_are_those_that_were_checked(small_release, tmp_path):
    with_lattice(small_release)
    measured = measure_release(load_plan(small_release), tmp_path / "measured", test_key=KEY).path
    whole = estimate(measured, tmp_path / "whole").path
    opened = open_measurements(measured)
    name = "measurements/Town/integer-subspace.total.parquet"
    path = measured / name
    other = pl.read_parquet(path).with_columns(pl.col("count") + 1)
    other.write_parquet(path)
    made = estimate_release(opened, tmp_path / "made", workers=2).path
    assert pl.read_parquet(made / name).equals(pl.read_parquet(whole / name))
