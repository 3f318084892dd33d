"""A first release file: from public metadata alone, and one that plans and runs."""

import tomllib
from pathlib import Path

import polars as pl
import pytest

import tallyveil

CANARY = "canary-31"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Records, a geography and a codebook."""
    monkeypatch.chdir(tmp_path)
    pl.DataFrame(
        {
            "area": ["A1", "A1", "B2"],
            "age": [7, 40, 90],
            "home": ["house", CANARY, "house"],
            "n": [3, 1, 2],
            "weight": [1.5, 1.0, 2.0],
        }
    ).write_parquet("people.parquet")
    pl.DataFrame({"area": ["A1", "A2", "B2"], "region": ["A", "A", "B"]}).write_csv("areas.csv")
    pl.DataFrame({"attribute": ["home", "home"], "level": ["house", CANARY]}).write_csv("codebook.csv")
    return tmp_path


PLACES = ["--geography", "areas.csv", "--geocode", "area", "--geolevels", "Region=1,Area"]


@pytest.fixture
def made(folder, command):
    """Runs `tallyveil init` on the records, and gives what the file says."""

    def run(*flags: str, places: list[str] = PLACES, records: str = "people.parquet") -> dict:
        Path("release.toml").unlink(missing_ok=True)
        command("init", records, *places, *(flags if "--epsilon" in flags else ("--rho", "1/2", *flags)))
        return tomllib.loads(Path("release.toml").read_text())

    return run


def test_a_codebook_and_ranges(made, command):
    content = made("--codebook", "codebook.csv", "--ranges", "age=0-17,18-64,65+")
    assert [one["name"] for one in content["schema"]["attributes"]] == ["home", "age"]
    assert content["records"] == {"path": "people.parquet", "geocode": "area", "numbers": ["age"]}
    assert content["geography"]["prefix_lengths"] == [1, 2]
    made_release = tallyveil.run("release.toml", "out", insecure_test_key="k")
    assert made_release.table("Region", "age")["age"].unique().sort().to_list() == ["0-17", "18-64", "65+"]


def test_bands_counts_units_and_a_pure_budget(made):
    content = made(
        *(
            "--bands",
            "age=0:5:85",
            "--count",
            "n",
            "--epsilon",
            "2",
            "--unit",
            "family",
            "--units",
            "families",
        ),
        *("--name", "ages", "--neighbours", "unbounded"),
        places=["--geography", "areas.csv", "--geocode", "area", "--geolevels", "Region=region,Area"],
    )
    (age,) = content["schema"]["attributes"]
    assert len(age["levels"]) == 18
    assert (age["levels"][0], age["levels"][-2:]) == ("0-4", ["80-84", "85+"])
    assert content["schema"]["unit"] == "family"
    assert content["geography"]["parent_columns"] == ["region"]
    assert content["privacy"] == {
        "neighbours": "unbounded",
        "mechanism": "discrete_laplace",
        "epsilon": "2",
    }
    assert content["strategy"]["queries"]["*"] == {"total": "1/3", "detailed": "2/3"}
    assert tallyveil.run("release.toml", "out", insecure_test_key="k").name == "ages"


def test_levels_come_from_a_sample(made):
    pl.DataFrame({"area": ["X"] * 2, "home": ["tent", "house"], "n": [1, 1]}).write_csv("sample.csv")
    content = made("--sample", "sample.csv", "--count", "n")
    assert content["schema"]["attributes"] == [{"name": "home", "levels": ["house", "tent"]}]


def test_levels_come_from_records_only_if_told_so(made, command):
    said = command("init", "people.parquet", *PLACES, "--rho", "1", "--attributes", "home", code=2)
    assert "Levels are not guessed from confidential records" in " ".join(said.split())
    assert CANARY not in said
    content = made("--levels-from-records", "--attributes", "home")
    assert content["schema"]["attributes"][0]["levels"] == [CANARY, "house"]


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["--count", "weight"], 2, "no fixed sensitivity"),
        (["--ranges", "age=0-17,17+"], 3, "share a number"),
        (["--ranges", "age"], 2, "wanted COLUMN="),
        (["--bands", "age=0:5:86"], 2, "wanted START:WIDTH:LAST"),
        (["--bands", "age=5:0:85"], 2, "wanted START:WIDTH:LAST"),
        (["--numbers", "age"], 2, "--numbers names age"),
        (["--attributes", "home,sex"], 2, "which levels sex has"),
        (["--sample", "areas.csv"], 2, "exclude each other"),
        (["--epsilon", "2"], 2, "not both"),
        (["--ranges", "years=0-9"], 2, "column"),
    ],
)
def test_mistakes_are_named_and_write_nothing(folder, command, flags, code, said):
    given = ["--codebook", "codebook.csv", *flags]
    found = command("init", "people.parquet", *PLACES, "--rho", "1/2", *given, code=code)
    assert said in " ".join(found.split())
    assert CANARY not in found
    assert not Path("release.toml").exists()


@pytest.mark.parametrize("flag", ["--geography", "--geocode", "--geolevels", "--rho"])
def test_without_a_terminal_a_missing_flag_is_named(folder, command, flag):
    flags = [*PLACES, "--rho", "1/2"]
    place = flags.index(flag)
    del flags[place : place + 2]
    said = command("init", "people.parquet", *flags, "--codebook", "codebook.csv", code=2)
    assert f"give {flag}." in " ".join(said.split())


@pytest.mark.parametrize("text", ["Area=2", "Region=1,Town=town,Area", "Region,Area", "=1,Area", ""])
def test_geolevels_that_make_no_sense(folder, command, text):
    flags = [*PLACES[:-1], text, "--rho", "1", "--codebook", "codebook.csv"]
    assert "--geolevels has" in command("init", "people.parquet", *flags, code=2)


def test_a_file_that_is_there_stays(folder, command):
    Path("release.toml").write_text("mine")
    flags = [*PLACES, "--rho", "1", "--codebook", "codebook.csv"]
    assert "file-taken" in command("init", "people.parquet", *flags, code=8)
    assert Path("release.toml").read_text() == "mine"
    assert "name the table of records" in command("init", code=2)


def test_hostile_names_are_written_as_they_are(made):
    pl.DataFrame({"attribute": ["home"] * 2, "level": ['a"b\\c\n', "é = ]"]}).write_parquet("odd.parquet")
    content = made("--codebook", "odd.parquet")
    assert content["schema"]["attributes"][0]["levels"] == ['a"b\\c\n', "é = ]"]


def test_records_are_taken_for_no_public_table(folder, command):
    pl.read_parquet("people.parquet").with_columns(pl.all().cast(pl.String)).write_csv(
        "p.csv", include_header=False
    )
    Path("link.csv").symlink_to("p.csv")
    for flag in ("--codebook", "--sample", "--geography"):
        flags = [*PLACES, "--rho", "1", "--codebook", "codebook.csv"]
        flags = [*flags[:-2], flag, "link.csv"] if flag != "--geography" else [flag, "link.csv", *flags[2:]]
        said = command("init", "p.csv", *flags, code=2)
        assert f"{flag} names the records" in said
        assert CANARY not in said
    assert not Path("release.toml").exists()


def test_the_header_of_records_without_one_is_not_shown(folder, command):
    Path("p.csv").write_text(f"A1,7,{CANARY}\nA1,40,house\n")
    flags = [*PLACES, "--rho", "1", "--levels-from-records", "--attributes", "home"]
    said = command("init", "p.csv", *flags, code=2)
    assert "Its first line is not shown" in said
    assert CANARY not in said


@pytest.mark.parametrize("codes", [["A1", "A1", "B2"], ["A1", "A22", "B2"], ["A1", None, "B2"], [1, 2, 3]])
def test_a_geography_that_no_run_would_take(folder, command, codes):
    pl.DataFrame({"area": codes}).write_parquet("odd.parquet")
    flags = ["--geography", "odd.parquet", *PLACES[2:], "--rho", "1", "--codebook", "codebook.csv"]
    said = command("init", "people.parquet", *flags, code=2 if codes[0] == 1 else 4)
    assert "geocode" in said
    assert not Path("release.toml").exists()


@pytest.mark.parametrize("rho", ["0", "-1", "1e-400", "1e400"])
def test_a_budget_that_no_noise_fits(folder, command, rho):
    flags = [*PLACES, f"--rho={rho}", "--codebook", "codebook.csv"]
    command("init", "people.parquet", *flags, code=2 if rho in ("0", "-1") else 5)
    assert not Path("release.toml").exists()


def test_columns_that_hold_no_numbers_or_levels(folder, command):
    flags = [*PLACES, "--rho", "1", "--ranges", "age=0-17,18+"]
    for values in ([True, False, True], pl.Series([1, 2, 3]).cast(pl.Date)):
        pl.DataFrame({"area": ["A1", "A1", "B2"], "age": values}).write_parquet("odd.parquet")
        assert "hold no numbers" in command("init", "odd.parquet", *flags, code=3)
    pl.DataFrame({"attribute": ["home"], "level": [b"x"]}).write_parquet("bytes.parquet")
    flags = [*PLACES, "--rho", "1", "--codebook", "bytes.parquet"]
    assert "hold lists, structures, bytes or durations" in command("init", "people.parquet", *flags, code=3)


@pytest.mark.parametrize("flag", ["--codebook", "--sample", "--ranges"])
def test_more_levels_than_a_file_can_hold_are_refused(folder, command, flag):
    names = [f"{number}-{number}" for number in range(5001)]
    pl.DataFrame({"attribute": ["home"] * len(names), "level": names}).write_csv("many.csv")
    pl.DataFrame({"area": ["A1"] * len(names), "home": names}).write_csv("sample.csv")
    given = {"--codebook": "many.csv", "--sample": "sample.csv", "--ranges": f"age={','.join(names)}"}[flag]
    said = command("init", "people.parquet", *PLACES, "--rho", "1", flag, given, code=2)
    assert "more than 5,000 levels" in " ".join(said.split())
    assert not Path("release.toml").exists()


@pytest.mark.parametrize("flag", ["--codebook", "--sample", "--geography"])
def test_another_name_of_the_records_is_taken_for_no_public_table(folder, command, flag):
    Path("public.parquet").hardlink_to("people.parquet")
    places = ["--geography", "public.parquet", *PLACES[2:]] if flag == "--geography" else PLACES
    levels = ["--codebook", "codebook.csv"] if flag == "--geography" else [flag, "public.parquet"]
    said = command("init", "people.parquet", *places, "--rho", "1", *levels, code=2)
    assert f"{flag} names the records" in " ".join(said.split())
    assert not Path("release.toml").exists()


def test_numbers_without_a_codebook_are_not_passed_over(folder, command):
    """The levels of a sample would be taken for text."""
    pl.DataFrame({"area": ["X"], "age": [7]}).write_csv("sample.csv")
    for levels in (["--sample", "sample.csv"], ["--levels-from-records", "--attributes", "age"]):
        said = command("init", "people.parquet", *PLACES, "--rho", "1", *levels, "--numbers", "age", code=2)
        assert "attributes of a codebook, which is not given" in " ".join(said.split())


def test_an_answer_with_bytes_that_are_no_text_is_refused(folder, command, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda *question, **more: "\udcff.csv")
    said = command("init", "people.parquet", "--codebook", "codebook.csv", "--rho", "1", code=8)
    assert "path-not-text" in said
