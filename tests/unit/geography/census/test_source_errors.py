"""Files that are wrong in one way each: the message names the file, the line, what was found and what was wanted."""

import re

import polars as pl
import pytest

from tallyveil.errors import ConfigError, GeographyError, SchemaError, StoreError
from tallyveil.geography.census import Sources, import_geography

MCD = "BlockAssign_ST44_RI_MCD.txt"
PLACE = "BlockAssign_ST44_RI_INCPLACE_CDP.txt"


def refused(sources, code):
    with pytest.raises(GeographyError) as caught:
        import_geography(sources)
    assert caught.value.code == code
    return str(caught.value)


def changed(files, name, old, new):
    """A folder of block assignment files, with a text of one file replaced once."""
    folder = files.assigned()
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    return Sources((folder,))


@pytest.mark.parametrize(
    ("name", "old", "new", "code", "said"),
    [
        (MCD, "BLOCKID|COUNTYFP|COUSUBFP\n", "", "census-file", "It has 3 column(s), and none of the wanted names"),
        (MCD, "COUSUBFP", "MCDFP", "census-file", "without COUSUBFP"),
        (MCD, "COUNTYFP|COUSUBFP", "COUSUBFP|COUSUBFP", "census-file", "the column COUSUBFP twice"),
        (PLACE, "440010301001001|", "440010301001001||", "census-file", "line 3: got 3 field(s)"),
        (PLACE, "440010301001001|\n", "\n", "census-file", "line 3: got 1 field(s) in ''; wanted 2"),
        (PLACE, "440010301001001|", "44001030100100|", "census-code", "got '44001030100100' in column BLOCKID"),
        (PLACE, "440010301001001|", "440010301001000|", "census-block", "line 3: got block '440010301001000' a "),
        (PLACE, "440010301001001|", "090010301001001|", "census-block", "State 09 (Connecticut); wanted"),
        (PLACE, "440010301001001|", "030010301001001|", "census-code", "of State '03'; wanted one of the States 01"),
        (PLACE, "440010301001001|\n", "", "census-block", "which .*INCPLACE_CDP.txt does not have"),
        (PLACE, "440010301001001|", "440010301001009|", "census-block", "line 3: got block '440010301001009', which"),
        (PLACE, "10000", "1000", "census-code", "line 4: got '1000' in column PLACEFP; wanted a code of 5 digits"),
        (MCD, "|001|", "|003|", "census-block", "with COUNTYFP '003'; wanted the county of the block, '001'"),
        (MCD, "|001|", "||", "census-block", "with COUNTYFP ''; wanted the county of the block, '001'"),
        ("BlockAssign_ST44_RI_AIANNH.txt", "2415", "4995", "census-code", "'4995' in column AIANNHCE, which no class"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_named(files, name, old, new, code, said):
    message = refused(changed(files, name, old, new), code)
    assert name in message
    assert re.search(said, message) or said in message


@pytest.mark.parametrize(("separator", "words"), [(",", "commas"), ("\t", "tabs"), (";", "semicolons")])
def test_another_separator_is_named(files, separator, words):
    folder = files.assigned()
    path = folder / MCD
    path.write_text(path.read_text().replace("|", separator))
    assert f"got {words} in the first line" in refused(Sources((folder,)), "census-file")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "an empty first line"),
        (b"BLOCKID|PLACEFP\n", "a header and no rows"),
        ("BLOCKID|PLACEFP\n".encode("utf-16"), "a file in UTF-16"),
        (b"BLOCKID|PLACEFP\n44\xff|\n", "bytes that are no UTF-8 text"),
        (b"BLOCKID|PLACEFP\n44\x1f|\n", "the control character U+001F"),
        (b"no table at all\n", "no separator in the first line"),
    ],
)
def test_a_file_that_is_no_table_is_named(files, content, said):
    folder = files.assigned()
    (folder / PLACE).write_bytes(content)
    assert said in refused(Sources((folder,)), "census-file")


def test_windows_line_ends_and_a_byte_order_mark_change_nothing(files):
    folder = files.assigned()
    plain = import_geography(Sources((folder,)))
    for path in folder.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    other = import_geography(Sources((folder,)))
    assert other.entities.equals(plain.entities)
    assert all(len(one["notes"]) == 2 for one in other.report["files"])


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("BlockAssign_ST44_MA_VTD.txt", "census-code", "with the abbreviation MA; wanted RI"),
        ("BlockAssign_ST03_XX_VTD.txt", "census-code", "got State '03' in the name"),
        ("BlockAssign_RI_VTD.txt", "census-file", "wanted BlockAssign_ST<State>"),
    ],
)
def test_a_wrong_name_is_refused(files, name, code, said):
    folder = files.assigned()
    files.text(f"baf44/{name}", ["BLOCKID|DISTRICT"])
    assert said in refused(Sources((folder,)), code)


def test_missing_files_are_named(files):
    folder = files.assigned()
    assert "no folder" in refused(Sources((folder / "absent",)), "census-file")
    (folder / MCD).unlink()
    assert "of State 44 (Rhode Island); wanted also MCD" in refused(Sources((folder,)), "census-file")
    for path in folder.iterdir():
        path.unlink()
    assert "no block assignment files" in refused(Sources((folder,)), "census-file")
    assert "got no file; wanted" in refused(Sources((), (folder / "absent.txt",)), "census-file")


def test_a_folder_named_twice_is_refused(files):
    folder = files.assigned()
    assert "a second file of " in refused(Sources((folder, folder)), "census-file")


def test_a_kind_of_area_that_is_not_known_is_reported(files):
    files.assigned()
    path = files.text("baf44/BlockAssign_ST44_RI_SDADM.txt", ["anything"])
    made = import_geography(Sources((path.parent,)))
    assert f"{path}: this kind of area is not known, and the file was not read." in made.report["misfits"]


def test_hostile_values_are_made_safe(files):
    message = refused(changed(files, PLACE, "10000", "\x1b[31m\u202e1"), "census-code")
    assert "\x1b" not in message
    assert "\\u001b[31m\\u202e1" in message


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        ("44|001|030100|1|1001", "44|001|030100|2|1001", "census-block", "with TABBLKGRPCE '2'; wanted the block"),
        ("44|001|030100|1|1001", "44|001|030100|1|1000", "census-block", "line 3: got block '440010301001000' a "),
        ("44|001|030100|1|1001", "44|001|30100|1|1001", "census-code", "'30100' in column TABTRACTCE; wanted 6 digits"),
        ("44|001|030100|1|1001", "99|001|030100|1|1001", "census-code", "of State '99'"),
        ("|9999|05140|99999", "||05140|99999", "census-code", "got nothing in column AIANNHCE"),
        ("|AIANNHCE|", "|AIAN|", "census-file", "without AIANNHCE"),
    ],
)  # fmt: skip
def test_a_wrong_reference_file_is_named(files, old, new, code, said):
    path = files.reference()
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    message = refused(Sources((), (path,)), code)
    assert said in message


def test_a_block_that_contradicts_its_state_is_named(files):
    geoids = [f"0{4 if place == 2 else 9}001030100{place:04d}" for place in range(7)]
    path = files.reference(extra={"GEOID": geoids})
    message = refused(Sources((), (path,)), "census-block")
    assert (
        "grf.txt, line 2: got block '090010301000000' with TABBLKST '44'; wanted the State of the block, '09'"
        in message
    )


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("440010301001009|501|1", "census-block", "line 2: got block '440010301001009', for which there"),
        ("440010301001000|051|1", "census-code", "'051' in column GQTYPE; wanted a type of three digits"),
        ("440010301001000|501|-1", "census-code", "'-1' in column FACILITIES; wanted a whole number, 0 or more"),
        ("440010301001000|501|1\n440010301001000|501|1", "census-block", "line 3: got type '501' in block"),
    ],
)  # fmt: skip
def test_wrong_facilities_are_named(files, line, code, said):
    path = files.text("facilities.txt", ["BLOCKID|GQTYPE|FACILITIES", line])
    assert said in refused(Sources((files.assigned(),), facilities=path), code)


def test_another_table_lacks_columns_or_has_numbers_for_blocks(files, tmp_path):
    folder = files.assigned()
    path = files.text("facilities.csv", ["BLOCKID,FACILITIES", "440010301001000,1"])
    with pytest.raises(ConfigError, match="'GQTYPE'"):
        import_geography(Sources((folder,), facilities=path))
    broken = files.text("facilities.parquet", ["no Parquet"])
    with pytest.raises(StoreError, match="cannot be read as parquet"):
        import_geography(Sources((folder,), facilities=broken))


@pytest.mark.parametrize("kind", [["501"], b"50\xff"], ids=["list", "bytes"])
def test_lists_and_bytes_are_no_codes(files, tmp_path, kind):
    path = tmp_path / "facilities.parquet"
    pl.DataFrame({"BLOCKID": ["440010301001000"], "GQTYPE": [kind], "FACILITIES": [1]}).write_parquet(path)
    with pytest.raises(SchemaError, match="GQTYPE of the geography file"):
        import_geography(Sources((files.assigned(),), facilities=path))


def test_a_comma_table_without_rows_is_refused(files):
    """Read as a table of no facilities, it would forbid all group quarters."""
    path = files.text("facilities.csv", ["BLOCKID,GQTYPE,FACILITIES"])
    assert "a header and no rows" in refused(Sources((files.assigned(),), facilities=path), "census-file")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("02806|440010301001009", "census-block", "line 3: got block '440010301001009', for which"),
        ("2806|440010301001001", "census-code", "line 3: got '2806' in column GEOID_ZCTA5_20"),
        (
            "02806|440010301001000",
            "census-block",
            "line 4: got block '440010301001000' a second time; it is first at",
        ),
    ],
)
def test_wrong_zctas_are_named_by_their_line_in_the_national_file(files, line, code, said):
    lines = ["GEOID_ZCTA5_20|GEOID_TABBLOCK_20", "10001|360010301001000", line]
    lines = lines if "second" not in said else [*lines, line]
    path = files.text("zcta.txt", lines)
    assert said in refused(Sources((files.assigned(),), zctas=path), code)


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (["STATEFP|FUNCSTAT", "44|A"], "census-file", "a list without PLACEFP"),
        (["STATEFP|PLACEFP|FUNCSTAT", "44|10001|A"], "census-file", "no row for STATEFP, PLACEFP '4410000'"),
        (
            ["STATEFP|PLACEFP|FUNCSTAT", "44|10000|A", "44|10000|S"],
            "census-file",
            "line 3: got STATEFP, PLACEFP",
        ),
        (
            ["STATEFP|PLACEFP|FUNCSTAT", "44|1000|A"],
            "census-code",
            "'1000' in column PLACEFP; wanted 5 digits",
        ),
        (["STATEFP|PLACEFP|FUNCSTAT", "44|10000|"], "census-code", "got nothing in column FUNCSTAT"),
    ],
)
def test_wrong_lists_of_areas_are_named(files, lines, code, said):
    path = files.text("places.txt", lines)
    assert said in refused(Sources((files.assigned(),), area_lists=(path,)), code)


@pytest.mark.parametrize(
    ("lines", "code", "said"),
    [
        (["39300,44,01"], "census-code", "line 3: got '01' in column COUNTYFP; wanted 3 digits"),
        (["39300,25,009", "3930,44,001"], "census-code", "line 4: got '3930' in column CBSAFP"),
        (["39300,44,"], "census-code", "line 3: got nothing in column COUNTYFP"),
        (["39300,44,001,"], "census-file", "line 3: got 4 field(s); wanted 3"),
        (
            ["14460,25,009", "39300,44,001", "39300,44,001"],
            "census-file",
            "line 5: got STATEFP, COUNTYFP '44001' a",
        ),
        (
            ["14460,25,009", "39300,44,003"],
            "census-file",
            "line 4: got county '44003', in which there is no block",
        ),
        ([], "census-file", "a header and no rows"),
        (["14460,25,009"], "census-file", "no county of the imported States (44)"),
        (['39300,"44,001'], "census-file", "a field without an end in line 3"),
        (['39300,44,"' + 150_000 * "0"], "census-file", "a field without an end in line 3"),
    ],
)
def test_wrong_lists_of_counties_are_named_by_their_line(files, lines, code, said):
    path = files.text("list1.csv", ["A title", "CBSA Code,FIPS State Code,FIPS County Code", *lines])
    assert said in refused(Sources((files.assigned(),), cbsas=path), code)


def test_a_list_of_counties_without_a_header_or_a_file_is_refused(files):
    path = files.text("list1.csv", ["39300,44,001"])
    assert "no line with cbsacode" in refused(Sources((files.assigned(),), cbsas=path), "census-file")
    wide = files.text("list2.csv", ["\ufeff".encode("utf-16").decode("latin-1")], start=b"\xff\xfe\x80")
    assert "UTF-8" in refused(Sources((files.assigned(),), cbsas=wide), "census-file")
    wide.write_bytes(b"")
    assert "an empty file" in refused(Sources((files.assigned(),), cbsas=wide), "census-file")
    assert "no file" in refused(Sources((files.assigned(),), cbsas=path.with_name("none.csv")), "census-file")
