"""Who is in which iteration: truth tables by hand, and the kernel against its twin and a definition by sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import toy_country as toy
from tests.oracles.safetab_groups import person_iterations_reference

from tallyveil.errors import SchemaError, TallyveilError
from tallyveil.kernels import records as kernels
from tallyveil.products.safetab.public.iterations import Detailing, read_iterations

# Race codes, ethnicity code; level 1 nationwide, level 1 below, level 2 nationwide, level 2 below.
CASES = [
    ("1000", "9950", "1101 1102", "1101 1102", "", ""),
    ("1010", "9950", "1101 1102", "1101 1102", "2101 2102", "2101 2102"),
    ("1020", "9950", "1101 1102", "1101 1102", "2201 2202", ""),
    ("1010 1010", "9950", "1101 1102", "1101 1102", "2101 2102", "2101 2102"),
    ("1010 1020", "9950", "1101 1102", "1101 1102", "2102 2202", "2102"),
    ("1010 1000", "9950", "1101 1102", "1101 1102", "2102", "2102"),
    ("1010 2010", "9950", "1102 1202", "1102 1202", "2102", "2102 2302"),
    ("2000 2010", "5010", "1201 1202 1901", "1201 1202 1901", "2901", "2302 2901"),
    ("3000", "5020", "1301 1302 1901", "1901", "2401 2402 2902", "2401 2402"),
    ("3000 1020 2010", "5010", "1102 1202 1302 1901", "1102 1202 1901", "2202 2402 2901", "2302 2402 2901"),
    ("4000", "9950", "", "", "", ""),
    ("4000 1010", "5020", "1102 1901", "1102 1901", "2102 2902", "2102"),
]


def found_by(function, view, races, ethnicity):
    race = races[0] if len(races) == 1 else ~1
    lists = np.array([-1, *races, -1], np.int16)
    out = np.empty(kernels.MOST_ITERATIONS, np.int32)
    n = function(race, lists, ethnicity, view.alone_of, view.combination_of, view.ethnicity_of, out)
    assert len(set(out[:n].tolist())) == n
    return {view.codes[i] for i in out[:n]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}/{case[1]}")
@pytest.mark.parametrize("function", [kernels.person_iterations, person_iterations_reference])
def test_truth_table(params, case, function):
    files = read_iterations(params)
    races = [files.codes.index(code) for code in case[0].split()]
    views = [files.view(level, nationwide=nationwide) for level in (1, 2) for nationwide in (True, False)]
    for view, wanted in zip(views, case[2:], strict=True):
        found = found_by(function, view, races, files.codes.index(case[1]))
        assert found == set(wanted.split())


@pytest.fixture(scope="module")
def read_once(tmp_path_factory):
    """Iterations of a plan, read once for all examples."""
    return read_iterations(toy.write_params(tmp_path_factory.mktemp("params")))


@settings(max_examples=60)
@given(st.data())
def test_random_people_are_where_the_definition_puts_them(read_once, data):
    files = read_once
    races = data.draw(st.lists(st.sampled_from(toy.RACES), min_size=1, max_size=8))
    span = data.draw(st.sampled_from(("9950", "5010", "5020")))
    for level in "12":
        for nationwide in (True, False):
            view = files.view(int(level), nationwide=nationwide)
            own = [files.codes.index(code) for code in races]
            found = found_by(kernels.person_iterations, view, own, files.codes.index(span))
            assert found == toy.iterations_of(races, span, level, nationwide)


def test_views_put_adaptive_iterations_first(params):
    files = read_iterations(params)
    view = files.view(2, nationwide=True)
    assert view.codes == ("2101", "2102", "2401", "2402", "2901", "2201", "2202", "2902")
    assert view.n_adaptive == 5
    below = files.view(2, nationwide=False)
    assert below.codes == ("2101", "2102", "2301", "2302", "2401", "2402", "2901")
    assert below.n_adaptive == 7
    assert not view.alone_of.flags.writeable


def test_the_production_files_have_their_known_sizes(production):
    files = read_iterations(production)
    assert len(files.codes) == 1755
    sizes = {(level, n): files.view(level, nationwide=n) for level in (1, 2) for n in (True, False)}
    assert [len(view.iterations) for view in sizes.values()] == [52, 48, 2944, 2150]
    assert [view.n_adaptive for view in sizes.values()] == [48, 48, 2150, 2150]
    assert not [i for i in files.iterations if i.detailing is Detailing.COARSE_ONLY]


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


RACE_FILE = "race-characteristic-iterations.txt"
ETHNICITY_FILE = "ethnicity-characteristic-iterations.txt"
MAP_FILE = "race-and-ethnicity-code-to-iteration.txt"
BAD = [
    ("race-and-ethnicity-codes.txt", "2000|Beta", "0200|Beta", "safetab-values", "RACE_ETH_CODE has 1 row"),
    ("race-and-ethnicity-codes.txt", "2000|Beta", "1000|Beta", "safetab-repeated", "2 rows repeat"),
    (RACE_FILE, "1101|Alpha alone|1|True|False", "1101|Alpha alone|1|Yes|False", "safetab-values", "ALONE"),
    (RACE_FILE, "1101|Alpha alone|1|", "1101|Alpha alone|3|", "safetab-values", "LEVEL"),
    (RACE_FILE, "1101|Alpha alone|1|True|False", "1101|Alpha alone|1|True|Null", "safetab-flags", "'1101'"),
    (
        RACE_FILE,
        "1301|Gamma alone|1|True|True|False",
        "1301|Gamma alone|1|True|True|True",
        "safetab-flags",
        "1 of",
    ),
    (RACE_FILE, "alone|0|True|Null|Null", "alone|0|True|False|False", "safetab-flags", "'0001'"),
    (ETHNICITY_FILE, "2901|Eth one", "2101|Eth one", "safetab-overlap", "'2101'"),
    (MAP_FILE, "2101|1010", "2101|1099", "safetab-unknown-code", "'1099'"),
    (MAP_FILE, "2101|1010", "2999|1010", "safetab-unknown-code", "'2999'"),
    (MAP_FILE, "2101|1010", "2101|1010\n2101|1010", "safetab-repeated", "2101|1010"),
    (MAP_FILE, "2101|1010", "2101|1010\n2201|1010", "safetab-several-iterations", "nation and state"),
    (MAP_FILE, "2101|1010", "2101|1010\n2301|1010", "safetab-several-iterations", "below the state"),
    (MAP_FILE, "2201|1020\n", "", "safetab-iteration-without-codes", "'2201'"),
    (RACE_FILE, "2101|Alpha north", "2101|alpha  SOUTH", "safetab-iteration-name", "'2101 and 2201'"),
    (RACE_FILE, "1301|Gamma alone|", "1301| |", "safetab-values", "ITERATION_NAME"),
]


@pytest.mark.parametrize(("file", "old", "new", "code", "said"), BAD)
def test_every_rule_of_the_code_files(params, file, old, new, code, said):
    edit(params / file, old, new)
    with pytest.raises(SchemaError) as raised:
        read_iterations(params)
    assert raised.value.code == code
    assert said in str(raised.value)
    assert file in str(raised.value)


def test_an_iteration_that_is_not_tabulated_needs_no_code_and_no_name_of_its_own(params):
    edit(params / MAP_FILE, "0001|1000\n0001|1010\n0001|1020\n", "")
    edit(params / RACE_FILE, "0001|Alpha major alone", "0001|Alpha alone")
    read_iterations(params)


def test_a_total_only_and_a_coarse_iteration_may_share_a_code(params):
    """They never stand side by side: one is tabulated nationwide, the other below."""
    edit(params / MAP_FILE, "2201|1020", "2201|1020\n2301|1020")
    read_iterations(params)


def test_public_files_that_are_empty_absent_or_no_text(params):
    path = params / RACE_FILE
    text = path.read_text()
    for content, code in (
        (text.split("\n")[0].encode() + b"\n", "safetab-empty"),
        (b"", "safetab-empty"),
        (text.encode().replace(b"Gamma", b"Gamm\xe9", 1), "safetab-encoding"),
        (text.replace("LEVEL|ALONE", "ALONE|LEVEL").encode(), "safetab-columns"),
    ):
        path.write_bytes(content)
        with pytest.raises(TallyveilError) as raised:
            read_iterations(params)
        assert raised.value.code == code
    path.unlink()
    with pytest.raises(TallyveilError) as raised:
        read_iterations(params)
    assert raised.value.code == "input-missing"


def test_windows_line_ends_and_blank_lines_are_read(params):
    before = read_iterations(params)
    for path in params.glob("*.txt"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n") + b"\r\n\r\n")
    assert read_iterations(params) == before
