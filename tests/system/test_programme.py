"""A programme makes its releases in order, each once, and goes on after a kill at any moment."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import Cipher
from tests.outer_worlds import write_persons
from tests.pages import require_readable, text_of
from tests.samples import every, nightly

import tallyveil
from tallyveil.accounting import compose
from tallyveil.api.programme import Programme
from tallyveil.errors import StoreError, TallyveilError
from tallyveil.noise.key import insecure_key
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.dhc.run import run as running
from tallyveil.products.topdown.run.run import run_release
from tallyveil.runs.folder import RunFolder

GUIDE = (Path(__file__).parents[2] / "docs" / "programme.md").read_text()
KEY = "programme"
HEAD = '[programme]\nname = "two"\n'


def programme_of(folder: Path, *releases: tuple[str, str]) -> Path:
    """A programme file with these names and files."""
    path = folder / "programme.toml"
    path.write_text(HEAD + "".join(f"[[releases]]\nname = {n!r}\nfile = {f!r}\n" for n, f in releases))
    return path


def write_files(small_release: Path) -> Path:
    """A second release file that counts households with another budget, beside the first; and the programme of both."""
    text = small_release.read_text().replace('name = "small"', 'name = "homes"')
    own = text.replace('name = "people"', 'name = "homes"\nunit = "household"')
    assert own.count("household") == 1
    (small_release.parent / "homes.toml").write_text(own)
    return programme_of(small_release.parent, ("persons", "release.toml"), ("homes", "homes.toml"))


@pytest.fixture(scope="module")
def made_once(make_small_inputs, tmp_path_factory) -> Path:
    """A folder with the inputs, the finished programme `R`, and `stopped`, whose second release is not begun."""
    folder = tmp_path_factory.mktemp("programme")
    programme = write_files(make_small_inputs(folder / "inputs"))
    run(programme, folder / "R")
    with pytest.MonkeyPatch.context() as patch:
        kill_at(patch, "write")
        with pytest.raises(KeyboardInterrupt):
            run(programme, folder / "stopped")
    return folder


@pytest.fixture
def programme(made_once, tmp_path) -> Path:
    """The file of the programme, with all its inputs in a folder of its own."""
    shutil.copytree(made_once / "inputs", tmp_path / "inputs")
    return tmp_path / "inputs" / "programme.toml"


@pytest.fixture
def files(programme) -> Path:
    """The folder of the inputs."""
    return programme.parent


@pytest.fixture
def finished(made_once, tmp_path) -> Path:
    """The folder of the finished programme."""
    shutil.copytree(made_once / "R", tmp_path / "R")
    return tmp_path / "R"


@pytest.fixture
def stopped(made_once, tmp_path) -> Path:
    """A programme whose first release is finished and whose second one was not begun."""
    shutil.copytree(made_once / "stopped", tmp_path / "R")
    return tmp_path / "R"


def run(programme: Path, out: Path, key: str | None = KEY) -> Programme:
    return tallyveil.run_programme(programme, out, insecure_test_key=key)


def contents(out: Path) -> dict[str, bytes]:
    """Every file."""
    return {p.relative_to(out).as_posix(): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def spends(out: Path) -> int:
    lines = [line for path in out.rglob("ledger.jsonl") for line in path.read_text().splitlines()]
    return sum(json.loads(line)["kind"] == "spend" for line in lines)


def error_of(programme: Path, out: Path, key: str | None = KEY) -> TallyveilError:
    with pytest.raises(TallyveilError) as caught:
        run(programme, out, key)
    return caught.value


class TestFinished:
    def test_each_release_is_an_ordinary_one(self, finished, files, tmp_path):
        run_release(load_plan(files / "homes.toml"), tmp_path / "alone", test_key=insecure_key(KEY))
        alone = contents(tmp_path / "alone")
        assert contents(finished / "homes") == alone | {
            "report.html": (finished / "homes" / "report.html").read_bytes()
        }
        assert {path.name for path in finished.iterdir()} == {
            "persons",
            "homes",
            "programme.json",
            "report.html",
        }
        assert (finished / "persons" / "report.html").is_file()
        content = json.loads((finished / "programme.json").read_text())
        assert not content["protected"]
        assert content["guarantee"]["together"]["statement"].startswith("NOT PRIVATE")
        assert "NOT PRIVATE" in text_of(finished / "report.html")

    def test_the_second_run_does_nothing(self, finished, programme):
        before = {path: path.stat().st_mtime_ns for path in finished.rglob("*")}
        again = run(programme, finished)
        assert again.already_finished
        assert {path: path.stat().st_mtime_ns for path in finished.rglob("*")} == before
        assert spends(finished) == 2

    def test_the_total_is_that_of_the_ledgers(self, programme, tmp_path, command):
        made = run(programme, tmp_path / "R", None)
        assert made.protected
        events = {name: release.manifest.event for name, release in made.releases.items()}
        plan = tallyveil.plan_programme(programme)
        assert plan.guarantee == made.guarantee
        assert list(plan.releases) == list(events) == ["persons", "homes"]
        parts = [*made.guarantee["by_unit"], made.guarantee["together"]]
        assert [part["units"] for part in parts] == [["people"], ["households"], ["people", "households"]]
        for part in parts:
            done = [plan.releases[name].content.event() for name in part["releases"]]
            assert part["exact_epsilon"] == compose(*done, neighbours="bounded").epsilon("1e-10").to_mapping()
        said = json.loads(command("account", "total", made.path, "--json"))
        assert made.guarantee["together"]["exact_epsilon"] == said["epsilon"]
        page = require_readable(made.path / "report.html", links={"persons/report.html", "homes/report.html"})
        assert page.tags.count("table") == 4
        words = text_of(made.path / "report.html")
        assert "one person’s record and one household’s record" in words
        assert "What it means for one household" in words
        assert "All releases have the same 48 Block geounits" in words
        assert made.report().read_text() == made.report().read_text()
        assert "persons, homes" in repr(made)
        assert "together" in made._repr_html_()

    def test_later_work_on_a_release_is_taken_up(self, finished, programme, command):
        before = json.loads((finished / "programme.json").read_text())["releases"]
        command("intervals", finished / "persons", "--quiet")
        again = run(programme, finished)
        assert again.already_finished
        assert again.content["releases"][0]["manifest_sha256"] != before[0]["manifest_sha256"]
        assert again.content["releases"][1] == before[1]

    @pytest.mark.nightly
    def test_a_programme_may_grow(self, finished, programme, files):
        first = json.loads((finished / "programme.json").read_text())
        third = (files / "homes.toml").read_text().replace('name = "homes"', 'name = "third"', 1)
        (files / "third.toml").write_text(third)
        programme_of(files, ("persons", "release.toml"), ("homes", "homes.toml"), ("third", "third.toml"))
        assert error_of(programme, finished, None).code == "resume-key"
        grown = run(programme, finished)
        assert grown.content["releases"][:2] == first["releases"]
        assert list(grown.releases) == ["persons", "homes", "third"]
        assert spends(finished) == 3

    @pytest.mark.parametrize(
        ("damage", "code"),
        [
            (lambda out: shutil.rmtree(out / "homes"), "release-damaged"),
            (lambda out: (out / "homes" / "manifest.json").unlink(), "key-lost"),
            (lambda out: edit(out / "programme.json", '"two"', '"six"'), "release-damaged"),
            (lambda out: (out / "programme.json").write_text("{}"), "release-damaged"),
            (lambda out: (out / "programme.json").unlink(), "folder-taken"),
        ],
    )
    def test_damage_is_named_and_spends_nothing(self, finished, programme, damage, code):
        damage(finished)
        before = contents(finished)
        error = error_of(programme, finished)
        assert error.code == code
        assert "from a copy" in str(error)
        assert "new spend" in str(error)
        assert contents(finished) == before


def test_a_machine_without_the_cipher_is_refused_at_once(programme, tmp_path, monkeypatch):
    """Before its folder is made."""

    def refuse(*_, **__):
        raise UnsupportedAlgorithm("no")

    monkeypatch.setattr(Cipher, "encryptor", refuse)
    assert error_of(programme, tmp_path / "out").code == "algorithm-refused"
    assert not (tmp_path / "out").exists()


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


class TestInterrupted:
    @pytest.mark.parametrize("number", every(60, [31, *range(1, 31), *range(32, 60)]))
    def test_killed_at_a_write(self, made_once, programme, tmp_path, killed_at, number):
        out = tmp_path / "R"
        assert killed_at(number, lambda: run(programme, out))
        before = {name: (out / name / "manifest.json").exists() for name in ("persons", "homes")}
        made = run(programme, out)
        assert contents(out) == contents(made_once / "R")
        assert spends(out) == 2
        assert not (out / "private").exists()
        for name, was_finished in before.items():
            assert made.releases[name].already_finished == was_finished

    @pytest.mark.parametrize("place", ["write", *map(nightly, ("begin", "programme", "remove"))])
    def test_killed_between_the_releases(self, stopped, programme, monkeypatch, place):
        """Before a release is entered, before it begins, before the programme is stated, before the end."""
        with monkeypatch.context() as patch:
            kill_at(patch, place)
            with pytest.raises(KeyboardInterrupt):
                run(programme, stopped)
        assert spends(stopped) == (2 if place in ("programme", "remove") else 1)
        assert error_report(stopped) == "release-unfinished"
        run(programme, stopped)
        assert spends(stopped) == 2
        assert not (stopped / "private").exists()

    def test_records_that_changed_since_are_refused(self, stopped, programme, files):
        path = files / "people.parquet"
        frame = pl.read_parquet(path)
        frame.with_columns(pl.col("count") + pl.Series([1] + [0] * (frame.height - 1))).write_parquet(path)
        before = contents(stopped)
        error = error_of(programme, stopped)
        assert error.code == "resume-changed"
        assert "release 'homes'" in str(error)
        assert contents(stopped) == before
        frame.write_parquet(path)
        run(programme, stopped)
        assert spends(stopped) == 2

    def test_a_release_that_was_begun_keeps_its_plan(self, stopped, programme, files):
        edit(files / "release.toml", 'name = "small"', 'name = "other"')
        error = error_of(programme, stopped)
        assert (error.code, spends(stopped)) == ("resume-changed", 1)
        assert "'persons', which has another plan now" in str(error)
        programme_of(files, ("homes", "homes.toml"))
        assert "is not in the file any more" in str(error_of(programme, stopped))

    @pytest.mark.nightly
    @pytest.mark.parametrize("place", ["write", "begin"])
    def test_a_release_that_has_not_spent_may_change(self, stopped, programme, files, monkeypatch, place):
        with monkeypatch.context() as patch:
            kill_at(patch, place)
            with pytest.raises(KeyboardInterrupt):
                run(programme, stopped)
        edit(files / "homes.toml", 'name = "homes"\nunit', 'name = "houses"\nunit')
        made = run(programme, stopped)
        assert made.releases["homes"].manifest.body["plan"]["schema"]["name"] == "houses"
        assert spends(stopped) == 2

    @pytest.mark.parametrize("key", [None, "another"])
    def test_another_key_is_refused(self, stopped, programme, key):
        assert error_of(programme, stopped, key).code == "resume-key"
        assert spends(stopped) == 1

    def test_a_release_from_elsewhere_is_refused(self, stopped, programme, made_once):
        shutil.copytree(made_once / "R" / "homes", stopped / "homes")
        error = error_of(programme, stopped)
        assert error.code == "folder-taken"
        assert "has not begun its release 'homes'" in str(error)

    WITHOUT_TEST_KEY = json.dumps({"format": 1, "key": "00" * 32, "begun": {}, "waiting": {}})

    @pytest.mark.parametrize("text", ["", "{}", "[]", '{"key": 3}', '{"key": "00"}', WITHOUT_TEST_KEY])
    def test_what_it_has_kept_may_be_damaged(self, stopped, programme, text):
        (stopped / "private" / "programme.json").write_text(text)
        before = contents(stopped)
        error = error_of(programme, stopped)
        assert error.code == "run-damaged"
        assert "from a copy: a new folder would draw new noise, which is a new spend" in str(error)
        assert contents(stopped) == before

    @pytest.mark.nightly
    @pytest.mark.parametrize("lost", ["private/programme.json", "private"])
    def test_what_it_has_kept_may_be_lost(self, stopped, programme, lost, tmp_path):
        """The folder of a release that has spent is not taken for one of something else."""
        kept = shutil.copytree(stopped, tmp_path / "copy")
        path = stopped / lost
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        before = contents(stopped)
        error = error_of(programme, stopped)
        assert error.code == "folder-taken"
        for words in (
            "(persons)",
            "private/programme.json",
            "from a copy",
            "A new folder would draw new noise",
        ):
            assert words in str(error)
        assert contents(stopped) == before
        shutil.rmtree(stopped)
        shutil.copytree(kept, stopped)
        run(programme, stopped)
        assert spends(stopped) == 2


def kill_at(patch: pytest.MonkeyPatch, place: str) -> None:
    """End the programme after its first release, at one of these places."""

    def run_one(plan, out, **settings):
        if place == "begin" and out.name == "homes":
            raise KeyboardInterrupt
        return run_release(plan, out, **settings)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    patch.setattr(running, "run_release", run_one)
    if place == "write":
        original = RunFolder.write

        def write(folder, name, data, **settings):
            if name == "programme.json" and '"homes"' in str(data).partition("waiting")[0]:
                raise KeyboardInterrupt
            original(folder, name, data, **settings)

        patch.setattr(RunFolder, "write", write)
    if place == "programme":
        patch.setattr(running, "write_programme", interrupted)
    if place == "remove":
        original_remove = RunFolder.remove_private

        def remove(folder):
            if (folder.path / "programme.json").exists():
                raise KeyboardInterrupt
            original_remove(folder)

        patch.setattr(RunFolder, "remove_private", remove)


def error_report(out: Path) -> str:
    """The code of the error that a report of an unfinished programme ends with."""
    from tallyveil.api.products import write_page

    with pytest.raises(StoreError) as caught:
        write_page(out)
    return caught.value.code


class TestRefused:
    """Before the first spend; the folder is left as it was found."""

    def test_a_wrong_input_of_the_last_release(self, programme, files, tmp_path):
        edit(files / "homes.toml", 'path = "people.parquet"', 'path = "nobody.parquet"')
        error = error_of(programme, tmp_path / "R")
        assert error.code == "input-missing"
        assert str(error).startswith("release 'homes': ")
        assert not (tmp_path / "R").exists()

    def test_a_release_in_the_folder(self, programme, made_once, tmp_path):
        out = tmp_path / "R"
        shutil.copytree(made_once / "R" / "homes", out / "homes")
        before = contents(out)
        assert error_of(programme, out).code == "folder-taken"
        assert contents(out) == before

    @pytest.mark.parametrize("what", ["file", "release", "other", "inputs"])
    def test_a_folder_of_something_else(self, programme, made_once, files, tmp_path, what):
        out = tmp_path / "R"
        if what == "file":
            out.write_text("")
        elif what == "release":
            shutil.copytree(made_once / "R" / "homes", out)
        elif what == "other":
            out.mkdir()
            (out / "mine").write_text("")
        else:
            out = files
        assert error_of(programme, out).code == ("input-in-output" if what == "inputs" else "folder-taken")
        assert not (out / "private").exists()

    def test_two_processes_at_once(self, programme, tmp_path):
        out = tmp_path / "R"
        with RunFolder(out):
            assert error_of(programme, out).code == "folder-locked"

    def test_more_records_than_the_machine_can_hold(self, programme, tmp_path, monkeypatch):
        """Refused before the first release spends, without a word about how many records there are."""
        monkeypatch.setattr("tallyveil.products.topdown.run.before_spend.free_disk", lambda _out: 1 << 14)
        with pytest.raises(StoreError, match=r"release 'persons': .* too little free space") as caught:
            run(programme, tmp_path / "R")
        assert caught.value.code == "disk-full"
        assert not (tmp_path / "R").exists()

    def test_a_folder_that_a_link_leads_out_of(self, programme, tmp_path):
        out = tmp_path / "R"
        out.mkdir()
        (out / "homes").symlink_to(tmp_path)
        assert error_of(programme, out).code == "path-outside"

    def test_a_small_disk_for_all_together(self, programme, tmp_path, monkeypatch):
        from tallyveil.products.dhc.run import inputs

        monkeypatch.setattr(inputs, "free_disk", lambda out: 1000)
        assert error_of(programme, tmp_path / "R").code == "disk-full"
        assert not (tmp_path / "R").exists()


def test_a_release_that_fails_says_how_to_go_on(stopped, programme, monkeypatch):
    def fail(plan, folder, **settings):
        if folder.name == "homes":
            raise StoreError("the disk is full.", code="disk-full")
        return run_release(plan, folder, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(running, "run_release", fail)
        error = error_of(programme, stopped)
    assert error.code == "disk-full"
    assert str(error).startswith("release 'homes' of the programme failed: the disk is full.")
    assert "Finished and kept: persons. Not begun: none." in str(error)
    made = run(programme, stopped)
    assert [one.already_finished for one in made.releases.values()] == [True, False]


def test_commands(programme, tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planned = command("plan", programme)
    assert ["persons", "people", "rho", "2.00000"] in [line.split()[:4] for line in planned.splitlines()]
    assert planned.count("guarantee   release") == 3
    record = json.loads(command("plan", programme, "--blocks", 1000, "--json"))
    assert [one["release"] for one in record["releases"]] == ["persons", "homes"]
    assert set(record["resources"]) == {"memory_bytes", "disk_bytes", "seconds"}
    assert "for all releases" in command("plan", programme, "--read-geography")
    assert "bad-flag" in command("plan", programme, "--families", "x", code=2)
    assert command("plan", programme, "--quiet") == ""
    said = json.loads(command("run", programme, "--out", "R", "--json", "--insecure-test-key", "a"))
    assert [one["release"] for one in said["releases"]] == ["persons", "homes"]
    assert not said["already_finished"]
    again = command("run", programme, "--out", "R", "--insecure-test-key", "a", "--workers", 2)
    assert "nothing was done and nothing spent" in again
    assert command("run", programme, "--out", "R", "--quiet", "--insecure-test-key", "a") == ""
    marks, _, page = command("report", "R").strip().rpartition("\n")
    assert page == "R/report.html"
    assert marks.count("NOT PRIVATE") == 2  # one for each release of a test key
    for words in (["intervals", "R"], ["publish", "csv", "R", "--out", "T"], ["estimate", "R", "--out", "E"]):
        assert "holds the releases of a programme" in command(*words, code=8)
    assert "other-product" in command("measure", programme, "--out", "M", code=2)
    release = programme.parent / "release.toml"
    assert "folder-taken" in command("run", release, "--out", "R", code=8)
    with pytest.raises(StoreError, match="each in a folder of its own"):
        tallyveil.open("R")


@pytest.mark.nightly
def test_guide(tmp_path, monkeypatch, command):
    """The example of docs/programme.md works as it is written."""
    monkeypatch.chdir(tmp_path)
    (text,) = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    Path("programme.toml").write_text(text)
    (block,) = re.findall(r"```sh\n(.*?)```", GUIDE, re.DOTALL)
    said = [command(*line.split()[1:]) for line in block.splitlines()]
    assert all(f"epsilon <= {digits}" in said[2] for digits in ("16.466", "2.364", "16.747"))
    assert "epsilon: between 16.746" in said[4]
    names: dict[str, Any] = {}
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    exec(compile(example, "programme.md", "exec"), names)
    made = names["programme"]
    assert made.already_finished
    assert made.guarantee == tallyveil.plan_programme("programme.toml").guarantee
    entries = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ", GUIDE.split("has these entries")[1], re.MULTILINE)
    assert [name for cell in entries for name in re.findall(r"`(\w+)`", cell)][: len(made.content)] == list(
        made.content
    )


@pytest.fixture(scope="module")
def agreeing(make_small_inputs, tmp_path_factory) -> Path:
    """A folder with the inputs and the finished programme `R`, whose second release agrees with the first one."""
    folder = tmp_path_factory.mktemp("agreeing")
    programme = write_files(make_small_inputs(folder / "inputs"))
    with (folder / "inputs" / "homes.toml").open("a") as file:
        file.write('[[agreement]]\nname = "persons"\nquery = "home"\ntheirs = "home"\n')
    run(programme, folder / "R")
    return folder


class TestAgreeing:
    """A release that reads an earlier one of the programme."""

    @pytest.mark.nightly
    def test_published_counts_agree(self, agreeing):
        made = run(agreeing / "inputs" / "programme.toml", agreeing / "R")
        assert made.already_finished
        persons, homes = (one.table("Block", "home") for one in made.releases.values())
        assert homes.equals(persons)
        (read,) = made.releases["homes"].manifest.body["agreement"]
        assert read["run"] == made.releases["persons"].manifest.run
        assert [one["reads"] for one in made.content["releases"]] == [[], ["persons"]]
        assert "Published counts of earlier releases are read by: homes." in text_of(
            made.path / "report.html"
        )

    def test_another_release_in_the_place_of_the_earlier_one_is_named(self, agreeing, tmp_path):
        shutil.copytree(agreeing / "R", tmp_path / "R")
        shutil.rmtree(tmp_path / "R" / "persons")
        release = agreeing / "inputs" / "release.toml"
        run_release(load_plan(release), tmp_path / "R" / "persons", test_key=insecure_key("another"))
        error = error_of(agreeing / "inputs" / "programme.toml", tmp_path / "R")
        assert error.code == "release-damaged"
        assert "holds another release" in str(error)

    def test_other_geounits_are_refused_before_anything_is_spent(self, agreeing, tmp_path):
        folder = tmp_path / "inputs"
        shutil.copytree(agreeing / "inputs", folder)
        geography = pl.read_parquet(folder / "geography.parquet")
        more = pl.DataFrame({"geocode": ["Q0399"]})
        pl.concat([geography, more]).write_parquet(folder / "more.parquet")
        edit(folder / "homes.toml", 'path = "geography.parquet"', 'path = "more.parquet"')
        error = error_of(folder / "programme.toml", tmp_path / "R")
        assert "different finest geounits" in str(error)
        assert not (tmp_path / "R").exists()

    def test_a_plan_says_what_is_read(self, agreeing, command):
        said = command("plan", agreeing / "inputs" / "programme.toml")
        assert "reads       homes reads persons" in said
        alone = agreeing / "inputs" / "homes.toml"
        assert "agreement-path" in command("run", alone, "--out", agreeing / "X", code=6)

    def test_a_release_of_a_trial_is_refused_before_anything_is_spent(self, agreeing, tmp_path):
        """It has a test key and lies elsewhere; the programme shall protect people."""
        folder = tmp_path / "inputs"
        shutil.copytree(agreeing / "inputs", folder)
        edit(
            folder / "homes.toml",
            'name = "persons"\n',
            f'name = "trial"\npath = "{agreeing / "R" / "persons"}"\n',
        )
        with pytest.raises(TallyveilError, match=r"release 'homes': .*insecure test key") as caught:
            tallyveil.run_programme(folder / "programme.toml", tmp_path / "R")
        assert caught.value.code == "agreement-unprotected"
        assert not (tmp_path / "R").exists()

    @pytest.mark.nightly
    def test_outer_passes_need_counts_of_every_record(self, tmp_path):
        """It is known before the first spend that what the earlier release will publish is not enough."""
        folder = tmp_path / "inputs"
        folder.mkdir()
        coarse, persons = write_persons(folder)
        edit(persons, 'path = "coarse"\n', "")
        edit(persons, 'query = "home*grown"\ntheirs = "home*grown"', 'query = "adults"\ntheirs = "adults"')
        only = '[[schema.recodes]]\nname = "adults"\nattribute = {!r}\ngroups = {{ adult = {} }}\n\n[privacy]'
        edit(coarse, "[privacy]", only.format("grown", '["adult"]'))
        edit(persons, "[privacy]", only.format("age", '["2", "3", "4", "5"]'))
        programme = programme_of(folder, ("coarse", coarse.name), ("persons", persons.name))
        error = error_of(programme, tmp_path / "R")
        assert error.code == "passes-groups"
        assert "Nothing fixes how many records with" in str(error)
        assert not (tmp_path / "R").exists()
        edit(persons, 'query = "adults"\ntheirs = "adults"', 'query = "home*grown"\ntheirs = "home*grown"')
        made = run(programme, tmp_path / "R")
        totals = [one.table("Block", "total") for one in made.releases.values()]
        assert totals[0].equals(totals[1])
