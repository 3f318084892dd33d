"""A user's own data for Figures 6, 8 and 9: what is read, what is refused, and that refusals come before work."""

from pathlib import Path

import polars as pl
import pytest

from tallyveil.errors import ConfigError, SchemaError, TallyveilError
from tallyveil.plans.from_toml.load import parse_file
from tallyveil.plans.from_toml.study_files import StudyFile
from tallyveil_studies.exhibit import MissingDataError
from tallyveil_studies.fdp_census.own_files import read_own_data

COUNTS = """[counts]
name = "Anywhere"
path = "counts.csv"
rows = { country = "A" }
columns = { Total = "all", "A/B" = "some" }
[[counts.geolevels]]
name = "State"
geounit = ["state"]
noise = "State"
[[counts.geolevels]]
name = "County"
geounit = ["state", "county"]
noise = "County"
"""
COUNTS_CSV = """country,state,county,all,some
A,01,001,100,3
A,01,001,50,2
A,02,001,70,0
A,01,002,20,20
B,09,001,999,999
"""
REGRESSION = """[[regressions]]
name = "Towns"
path = "towns.csv"
geounit = ["town"]
counts = ["high", "low"]
share = "high"
outcome = "income"
noise = "State"
"""
TOWNS_CSV = """town,low,high,income
a,500,300,50000
b,400,350,55000.5
c,700,100,31000
d,600,390,
e,610,310,48000
"""


BLOCKS = """[blocks]
path = "people.csv"
geocode = "geocode"
counts = ["high", "low"]
share = "high"
areas = ["geography.csv", "entities.csv"]
[[blocks.regressions]]
name = "Counties of A"
area = "county"
path = "incomes.csv"
rows = { kind = "county" }
geounit = "code"
outcome = "income"
noise = "County"
[[blocks.regressions]]
name = "Postal areas"
area = "zcta"
path = "incomes.csv"
rows = { kind = "zcta" }
geounit = "code"
outcome = "income"
noise = "State"
"""
PEOPLE_CSV = """geocode,low,high
b1,500,300
b2,400,350
b3,700,100
b4,600,390
b5,610,310
b1,10,20
"""
GEOGRAPHY_CSV = "geocode,county\nb1,c1\nb2,c1\nb3,c2\nb4,c3\nb5,c3\nb6,c4\n"
ENTITIES_CSV = "geocode,zcta\nb1,z1\nb2,z2\nb3,z3\nb4,\nb5,z1\nb6,z4\n"
INCOMES_CSV = """kind,code,income
county,c3,50000
county,c1,55000.5
county,c2,31000
zcta,z1,40000
zcta,z2,41000
zcta,z3,30000
zcta,z4,
zcta,elsewhere,1
"""


@pytest.fixture
def read(tmp_path):
    def run(*tables, counts=COUNTS_CSV, towns=TOWNS_CSV, **others):
        (tmp_path / "counts.csv").write_text(counts)
        (tmp_path / "towns.csv").write_text(towns)
        made = {
            "people": PEOPLE_CSV,
            "geography": GEOGRAPHY_CSV,
            "entities": ENTITIES_CSV,
            "incomes": INCOMES_CSV,
        }
        for name, text in {**made, **others}.items():
            (tmp_path / f"{name}.csv").write_text(text)
        path = tmp_path / "own.toml"
        path.write_text("".join(tables))
        return read_own_data(path, parse_file(path, StudyFile))

    return run


def test_counts_are_summed_by_geounit(read):
    counts = read(COUNTS).counts
    assert counts.name == "Anywhere"
    assert counts.labels == ("Total", "A/B")
    state, county = counts.levels
    assert (state.name, state.noise) == ("State", "State")
    assert state.counts.tolist() == [[170, 25], [70, 0]]
    assert county.counts.tolist() == [[150, 5], [20, 20], [70, 0]]


def test_counts_of_a_parquet_file_are_the_same(read, tmp_path):
    from_csv = read(COUNTS)
    frame = pl.read_csv(tmp_path / "counts.csv", schema_overrides={"state": pl.String, "county": pl.String})
    frame.with_columns(all=pl.col("all").cast(pl.Float64)).write_parquet(tmp_path / "counts.parquet")
    from_parquet = read(COUNTS.replace("counts.csv", "counts.parquet"))
    for ours, theirs in zip(from_parquet.counts.levels, from_csv.counts.levels, strict=True):
        assert ours.counts.tolist() == theirs.counts.tolist()


def test_a_regression_has_its_share_last_and_leaves_out_places_without_outcome(read):
    (towns,) = read(REGRESSION).regressions
    assert towns.places.counts.tolist() == [[500, 300], [400, 350], [700, 100], [610, 310]]
    assert towns.places.outcome.tolist() == [50_000, 55_000.5, 31_000, 48_000]
    assert (towns.name, towns.noise) == ("Towns", "State")


def test_areas_are_sums_of_their_blocks(read):
    counties, postal = read(BLOCKS).regressions
    assert (counties.name, counties.noise) == ("Counties of A", "County")
    assert counties.places.counts.tolist() == [[910, 670], [700, 100], [1210, 700]]
    assert counties.places.outcome.tolist() == [55_000.5, 31_000, 50_000]
    # A block in none is in no sum; an area without an outcome, or without blocks, is left out.
    assert postal.places.counts.tolist() == [[1120, 630], [400, 350], [700, 100]]
    assert postal.places.outcome.tolist() == [40_000, 41_000, 30_000]


def test_an_area_with_a_block_without_counts_is_refused_by_its_code(read):
    with pytest.raises(
        ConfigError, match=r"'Counties of A'.*: some blocks of county 'c3' have no row of counts"
    ):
        read(BLOCKS, people=PEOPLE_CSV.replace("b4,600,390\n", ""))


def test_areas_of_blocks_come_after_regressions_of_tables(read):
    assert [one.name for one in read(REGRESSION, BLOCKS).regressions] == [
        "Towns",
        "Counties of A",
        "Postal areas",
    ]


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ('area = "zcta"', 'area = "zeta"', "'Postal areas': 0 of the tables of areas .* Did you mean 'zcta'"),
        ('"entities.csv"]', '"geography.csv"]', "2 of the tables of areas"),
        ('kind = "zcta"', 'kind = "county"', "no code in the column 'code' of .*incomes.csv .* such as 'z1'"),
        ('noise = "State"', 'noise = "Place"', "'Place', wanted a geolevel of the paper's Table 1"),
        ('name = "Postal areas"', 'name = "Counties of A"', "regressions are named twice"),
        ('share = "high"', 'share = "top"', "share is 'top', wanted one of counts"),
        ('outcome = "income"', 'outcome = "incomes"', "did you mean 'income'"),
    ],
)
def test_areas_that_are_described_wrongly(read, wrong, right, said):
    with pytest.raises(TallyveilError, match=said):
        read(BLOCKS.replace(wrong, right))


@pytest.mark.parametrize(
    ("table", "wrong", "right", "said"),
    [
        ("entities", "b3,z3\n", "", "no row for the block 'b3', which has counts .*kind: 1"),
        ("entities", "b6,z4", "b1,z4", "more than one row for geocode 'b1'"),
        ("people", "b3,700,100", ",700,100", "column 'geocode' of .* is empty in some rows"),
        ("people", "b3,700,100", "b3,700,x", "holds 'x' at geocode 'b3'"),
        ("people", "b3,700,100", "b3,0,0", "the place county 'c2' of .* has no people"),
        ("incomes", "z3,30000", "z3,inf", "wanted finite numbers"),
        ("incomes", "zcta,z3,30000", "zcta,z2,30000", "more than one row for code 'z2'"),
        ("incomes", "zcta,z3,30000", "", "has 2 places with an outcome"),
    ],
)
def test_wrong_tables_of_areas(read, table, wrong, right, said):
    texts = {"people": PEOPLE_CSV, "entities": ENTITIES_CSV, "incomes": INCOMES_CSV}
    with pytest.raises(TallyveilError, match=said):
        read(BLOCKS, **{table: texts[table].replace(wrong, right)})


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ('noise = "County"', 'noise = "county"', "'county', wanted a geolevel of the paper's Table 1"),
        ('some"', 'somme"', "did you mean 'some'"),
        ('"state", "county"', '"county"', "county '001' lies in more than one geounit of 'State'"),
        ('"A" }', '"C" }', "has no row with country = 'C'"),
        ('"counts.csv"', '"none.csv"', "none.csv does not exist"),
        ('name = "County"', 'name = "State"', "geolevels are named twice: State"),
        ('"A/B"', '"A\\nB"', "several lines"),
        ("path", "paths", "did you mean 'path'"),
    ],
)
def test_counts_that_are_described_wrongly(read, wrong, right, said):
    with pytest.raises(TallyveilError, match=said):
        read(COUNTS.replace(wrong, right))


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        (
            "70,0",
            "70,0.5",
            "column 'some' of .* holds '0.5' at state '02', county '001'; wanted whole numbers",
        ),
        ("70,0", "70,-1", "holds '-1'"),
        ("70,0", "70,", "holds nothing"),
        ("70,0", "70,5000000000", "wanted whole numbers from 0 to 4,294,967,296"),
        ("A,01,001,100,3\nA,01,001,50,2", "A,01,001,1,x\nA,01,001,2,y", "Rows that do not fit: 2"),
    ],
)
def test_wrong_counts(read, wrong, right, said):
    with pytest.raises(SchemaError, match=said):
        read(COUNTS, counts=COUNTS_CSV.replace(wrong, right))


def test_a_row_without_geounit(read):
    with pytest.raises(ConfigError, match="is empty in some rows"):
        read(COUNTS, counts=COUNTS_CSV.replace("A,02,001", "A,02,"))


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ("c,700", "a,700", "more than one row for town 'a'"),
        ("31000", "3e4x", "holds '3e4x' at town 'c'; wanted finite numbers"),
        ("31000", "inf", "wanted finite numbers"),
        ("c,700,100", "c,0,0", "the place town 'c' of .* has no people in any of the counts"),
        ("c,700,100", "c,1,1", "too small for the noise of 'State'"),
        ("b,400,350,55000.5\nc,700,100,31000\n", "", "has 2 places with an outcome"),
    ],
)
def test_wrong_places(read, wrong, right, said):
    with pytest.raises(TallyveilError, match=said):
        read(REGRESSION, towns=TOWNS_CSV.replace(wrong, right))


def test_a_share_that_is_no_count(read):
    with pytest.raises(ConfigError, match="share is 'middle', wanted one of counts: high, low"):
        read(REGRESSION.replace('share = "high"', 'share = "middle"'))


def test_an_empty_file(read):
    with pytest.raises(ConfigError, match="it describes no data"):
        read("")


def test_what_a_figure_needs(read):
    own = read(COUNTS)
    assert own.require_counts("Figure 6").name == "Anywhere"
    with pytest.raises(MissingDataError, match=r"Figure 9 needs the table \[\[regressions\]\]"):
        own.require_regressions("Figure 9")


@pytest.mark.nightly
def test_figures_from_the_command_line(read, command, tmp_path):
    read(COUNTS)
    flags = ("--own", tmp_path / "own.toml", "--out", tmp_path / "out")
    said = command("study", "fdp-census", "--figure", 6, "--figure", 8, *flags)
    assert "Figure 6: error of noisy counts, Anywhere" in said
    table = pl.read_csv(tmp_path / "out" / "figure-6.csv")
    assert set(table["geolevel"]) == {"State", "County"}
    # Without post-processing the expected error is the variance of the law, and the counts do not matter.
    free = table.filter(pl.col("nonnegative").not_(), method="Bureau's noise")
    assert (free["mse_expected"] / free["variance"] - 1).abs().max() < 1e-9
    # A count that is 0 everywhere has half the squared error where negative counts become 0.
    races = pl.read_csv(tmp_path / "out" / "figure-8.csv")
    zero = races.filter(geolevel="State", query="A/B")
    assert zero["mean_count"].to_list() == [12.5, 12.5]
    assert races["epsilon_at_1e-10"].null_count() == 0


def test_refusals_come_before_any_work(read, command, tmp_path):
    read(COUNTS)
    own, out = tmp_path / "own.toml", tmp_path / "out"
    asked = ("study", "fdp-census", "--table", 3, "--out", out, "--own", own)
    assert "needs the table [[regressions]]" in command(*asked, "--figure", 9, code=2)
    assert "nothing that was asked for shows data of your own" in command(*asked, code=2)
    (tmp_path / "counts.csv").write_text(COUNTS_CSV.replace("70,0", "70,x"))
    assert "holds 'x'" in command(*asked, "--figure", 6, code=3)
    assert not out.exists()


def test_the_example_of_the_guide_is_understood(tmp_path):
    guide = (Path(__file__).parents[3] / "docs" / "studies.md").read_text(encoding="utf-8")
    example, of_areas = (part.split("```")[0] for part in guide.split("```toml\n")[1:3])
    (tmp_path / "own.toml").write_text(example + of_areas)
    file = parse_file(tmp_path / "own.toml", StudyFile)
    assert [geolevel.geounit for geolevel in file.counts.geolevels] == [["state"], ["state", "county"]]
    assert file.regressions[0].share == "bachelor"
    assert file.blocks.regressions[0].area == "cbsa"
