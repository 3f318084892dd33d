import json

import polars as pl
import pytest

from tallyveil.errors import StoreError
from tallyveil.geography.census import Sources, import_geography, write_imported
from tallyveil.geography.census.importing import report_lines
from tallyveil.storage import write as writing
from tallyveil.storage.outputs import MARKER
from tallyveil.storage.read import read_table
from tallyveil.storage.write import file_digest


def test_tables_and_report_are_written(files, tmp_path):
    made = import_geography(Sources((files.assigned(), files.assigned("10"))))
    paths = write_imported(made, tmp_path / "out")
    assert sorted(paths) == ["entities", "geography", "import.json", "import.txt"]
    assert pl.read_parquet(paths["geography"]).equals(made.geography)
    assert pl.read_parquet(paths["entities"]).equals(made.entities)
    assert json.loads(paths["import.json"].read_text()) == made.report
    assert paths["import.txt"].read_text().splitlines() == "\n".join(report_lines(made.report)).splitlines()


def test_facilities_of_an_earlier_import_do_not_stay(files, tmp_path):
    path = files.text("facilities.txt", ["BLOCKID|GQTYPE|FACILITIES", "440010301001000|501|2"])
    folder = files.assigned()
    first = write_imported(import_geography(Sources((folder,), facilities=path)), tmp_path / "out")
    assert first["facilities"].is_file()
    second = write_imported(import_geography(Sources((folder,))), tmp_path / "out")
    assert "facilities" not in second
    assert not first["facilities"].exists()


@pytest.mark.parametrize("at", range(5))
def test_a_killed_import_is_never_a_mixture(files, tmp_path, monkeypatch, at):
    """Nothing of the first import stays beside the second; the folder is no input until the second is whole."""
    out = tmp_path / "out"
    path = files.text("facilities.txt", ["BLOCKID|GQTYPE|FACILITIES", "440010301001000|501|2"])
    first = import_geography(Sources((files.assigned(),), facilities=path))
    second = import_geography(Sources((files.assigned("10"),)))
    write_imported(first, out)
    original, calls = writing.write_file, [0]

    class Killed(BaseException):
        """Ends the work at once."""

    def write_file(target, write):
        calls[0] += 1
        if calls[0] > at:
            raise Killed
        original(target, write)

    with monkeypatch.context() as patch:
        patch.setattr(writing, "write_file", write_file)
        with pytest.raises(Killed):
            write_imported(second, out)
    left = {name for name in ("geography", "entities") if (out / f"{name}.parquet").exists()}
    for name in left:
        assert pl.read_parquet(out / f"{name}.parquet").equals(getattr(second, name))
        with pytest.raises(
            StoreError, match="`tallyveil geography import` is at work there, or was interrupted"
        ):
            read_table(out / f"{name}.parquet", ["geocode"], name)
    assert not (out / "facilities.parquet").exists()
    assert (out / "import.json").exists() == (at > 3)
    write_imported(second, out)
    assert read_table(out / "geography.parquet", ["geocode"], "geography").height
    assert {one.name for one in out.iterdir()} == {
        MARKER,
        "geography.parquet",
        "entities.parquet",
        "import.json",
        "import.txt",
    }


def test_nothing_is_written_over_an_input_or_over_other_files(files, tmp_path):
    made = import_geography(Sources((files.assigned(),)))
    with pytest.raises(StoreError, match="is inside the folder that output is written to"):
        write_imported(made, files.folder)
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "notes.txt").write_text("not ours")
    with pytest.raises(StoreError, match="not empty"):
        write_imported(made, taken)


def test_the_report_says_what_was_read_and_which_rule_was_applied(files):
    report = import_geography(Sources((files.assigned(), files.assigned("10")))).report
    assert {one["sha256"] for one in report["files"]} == {
        file_digest(path) for folder in ("baf44", "baf10") for path in (files.folder / folder).iterdir()
    }
    delaware, rhode_island = report["states"]
    assert (delaware["rule"], rhode_island["rule"]) == (
        "places",
        "minor civil divisions; places inside tribal areas",
    )
    assert rhode_island["blocks_in_county_subdivisions"] == 4
    assert rhode_island["blocks_in_places"] == 1
    assert rhode_island["blocks_in_neither"] == 2
    assert rhode_island["is_divided_by_tribal_branch"]
    assert not delaware["is_divided_by_tribal_branch"]


def test_the_report_audits_tribal_areas(files):
    report = import_geography(Sources((files.assigned(),))).report
    first, second = report["tribal_areas"]
    assert first == {
        "code": "2415",
        "class": "federally recognised reservation or trust land",
        "in_spine": True,
        "states": ["44"],
        "counties": 1,
        "block_groups": 1,
        "blocks": 2,
        "components": {"R": 1, "T": 1},
    }
    assert (second["code"], second["in_spine"]) == ("9600", False)
    misfits = "\n".join(report["misfits"])
    assert "Areas of classes for which the spine has no branch: 1, such as 9600; their blocks: 1." in misfits
    assert "that are in no place: 1, such as 440090511011001" in misfits
    assert (
        "Blocks of States with minor civil divisions that are in none: 1, such as 440090511011002" in misfits
    )
    assert "no block assignment files of SDSEC, VTD, CD, SLDU, SLDL" in misfits
    assert "no column group_quarters" in misfits


def test_an_area_outside_the_state_of_its_class_is_odd(files):
    folder = files.assigned("10")
    path = folder / "BlockAssign_ST10_DE_AIANNH.txt"
    path.write_text(path.read_text().replace("100010401001000|", "100010401001000|5010", 1))
    misfits = import_geography(Sources((folder,))).report["misfits"]
    assert (
        "Area 5010 has blocks in State 10; by its code it is a Hawaiian home land, which only State 15 has."
        in misfits
    )


def test_names_of_files_are_made_safe(files):
    folder = files.assigned()
    strange = folder.rename(folder.with_name("\x1b[31mred"))
    report = import_geography(Sources((strange,))).report
    assert not any("\x1b" in line for line in report_lines(report))
