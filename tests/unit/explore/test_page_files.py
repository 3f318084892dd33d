"""What the page reads from others: files of districts, and sets in addresses."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.samples import few
from tests.unit.explore.nodes import node_needed

import tallyveil.explore

APP = Path(tallyveil.explore.__file__).parent / "app"

pytestmark = node_needed


def called(module: str, name: str, *given: Any) -> Any:
    """What a function of a module returns, or the text of its error."""
    script = f"""
        import {{ {name} }} from {json.dumps((APP / module).as_uri())};
        let found;
        try {{ found = {name}(...{json.dumps(given)}); }} catch (error) {{ found = error.message; }}
        console.log(JSON.stringify(ArrayBuffer.isView(found) ? [...found] : found));
    """
    command = ["node", "--input-type=module", "-"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, check=True, encoding="utf-8")
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("\ufeffgeocode\r\n01\r\n", [["geocode"], ["01"]]),
        ("geocode\r01\r\r02", [["geocode"], ["01"], ["02"]]),
        (",geocode\n0,01\n", [["", "geocode"], ["0", "01"]]),  # as pandas writes an index
        ('"geocode","a\nb"\n"x""y",\n', [["geocode", "a\nb"], ['x"y', ""]]),
    ],
)
def test_csv(text, rows):
    assert called("parts/csv.js", "parseCsv", text) == rows


@pytest.mark.parametrize("row", ['"01', 'a"b', '"01"x', '"01\n02\n03'])
def test_a_torn_row_is_refused_and_not_left_out(row):
    assert "in its row 2, a quotation mark" in called("parts/csv.js", "parseCsv", f"geocode\n{row}\n")


@pytest.mark.parametrize(
    ("text", "rows"),
    few(
        4,
        [
            ("3-5,8", [3, 4, 5, 8]),
            ("0-9,0-9", None),
            ("5,3", None),
            ("0-10", None),
            ("1e1", None),
            ("-1", None),
            ("9-3", None),
            ("", None),
        ],
    ),
)
def test_sets_in_addresses_rise(text, rows):
    assert called("explorer/rows.js", "parseRows", text, 10) == rows


@pytest.mark.parametrize(
    "text",
    [
        "geocode\n01\n02\n01\n",
        "\ufeffBLOCKID|STATE\r\n01|44\r\n02|44\r\n",
        ",GEOID20\n0,01\n1,02\n",
        "geocode,GEOID\n01,x\n02,x\n",
    ],
)
def test_the_blocks_of_a_district_file(text):
    assert called("explorer/district-file.js", "codesOfFile", text, "blocks") == ["01", "02"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("BLOCKID|DISTRICT\n01|1\n02|2\n", "column DISTRICT, which differs"),
        ("geocode,D\n01,1\n02,\n", "may name several districts"),
        ("GEOID,GEOID20\n01,1\n", "several columns of geocodes"),
        ("block\n01\n", "no column"),
        ("", "no column"),
    ],
)
def test_a_plan_is_not_read_as_one_district_by_a_page(text, said):
    assert said in called("explorer/district-file.js", "codesOfFile", text, "blocks")
