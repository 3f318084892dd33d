"""The short form of a code list becomes the long one."""

from pathlib import Path

import pytest

from tallyveil.errors import SchemaError, StoreError
from tallyveil.products.safetab.public.files import CODE_TO_ITERATION, convert_short_form, read_file


def convert(tmp_path, lines):
    (tmp_path / "short.txt").write_text("\n".join(["ITERATION_CODE|RACE_ETH_CODE", *lines, ""]))
    (tmp_path / "codes.txt").write_text("RACE_ETH_CODE|RACE_ETH_NAME\n1000|a\n1001|b\n1005|c\n2000|d\n")
    out = tmp_path / f"{CODE_TO_ITERATION.stem}.txt"
    n = convert_short_form(tmp_path / "short.txt", tmp_path / "codes.txt", out)
    lines = out.read_text().strip().split("\n")
    assert len(lines) == n + 1
    return lines[1:]


def test_ranges_lists_blanks_and_codes_that_do_not_exist(tmp_path):
    found = convert(
        tmp_path, ["1001|1000:1999", " 1002 |  2000 , 1005", "1003|1004:1006,1005", "1004|3000:3999"]
    )
    assert found == [
        "1001|1000", "1001|1001", "1001|1005", "1002|2000", "1002|1005", "1003|1005",
    ]  # fmt: skip
    assert read_file(tmp_path, CODE_TO_ITERATION)[1].height == 6


@pytest.mark.parametrize(
    "line",
    [
        "1001",
        "1001|",
        "1001|100",
        "1001|1000:200",
        "1001|1000 2000",
        "1001|1000,",
        "x|1000",
        "1001|1999:1000",
        "",
    ],
)
def test_a_bad_line_is_named(tmp_path, line):
    with pytest.raises(SchemaError, match="line 3") as raised:
        convert(tmp_path, ["1001|1000", line])
    assert raised.value.code == "safetab-short-form"
    assert not (tmp_path / f"{CODE_TO_ITERATION.stem}.txt").exists()


def test_not_utf8(tmp_path):
    (tmp_path / "short.txt").write_bytes(b"ITERATION_CODE|RACE_ETH_CODE\n1001|\xff\n")
    (tmp_path / "codes.txt").write_text("RACE_ETH_CODE|RACE_ETH_NAME\n1000|a\n")
    with pytest.raises(StoreError, match="byte 6 of line 2") as raised:
        convert_short_form(tmp_path / "short.txt", tmp_path / "codes.txt", tmp_path / "out.txt")
    assert raised.value.code == "safetab-encoding"


def test_a_device_without_an_end(tmp_path):
    with pytest.raises(StoreError, match="cannot be read: OSError"):
        convert_short_form(Path("/dev/zero"), Path("/dev/zero"), tmp_path / "out.txt")
