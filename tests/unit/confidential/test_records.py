"""Reading people: what is refused, and that a refusal shows nothing."""

import logging
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tallyveil.confidential import records
from tallyveil.confidential.histogram import ConfidentialHistogram
from tallyveil.confidential.records import read_records, read_units
from tallyveil.errors import (
    ConfigError,
    GeographyError,
    SchemaError,
    StoreError,
    TallyveilError,
)
from tallyveil.geography.build import spine_from_prefixes
from tallyveil.plans.inputs import Households, MemberNumber
from tallyveil.schema.attribute import Attribute, Recode, StructuralZero
from tallyveil.schema.counts import LARGEST_COUNT
from tallyveil.schema.query_group import Factor
from tallyveil.schema.schema import Schema

CANARY = "canary-7716"

SCHEMA = Schema(
    "people",
    (Attribute("age", ("young", "old")), Attribute("home", ("house", "barracks"))),
    structural_zeros=(
        StructuralZero("no young in barracks", (("age", ("young",)), ("home", ("barracks",)))),
    ),
)
SPINE = spine_from_prefixes(["A1", "A2", "B1"], ("Region", "Town"), (1, 2))
GROUPS_OF_HOMES = Recode("quarters", "home", (("home", ("house",)), ("camp", ("barracks",))))
QUARTERS = Schema("people", SCHEMA.attributes, (GROUPS_OF_HOMES,)).query("quarters").factors[1]


def write(folder: Path, **changes: object) -> Path:
    columns: dict[str, object] = {
        "geocode": ["A1", "A1", "B1", "A1"],
        "age": ["young", "old", "old", "young"],
        "home": ["house", "house", "barracks", "house"],
        "count": [3, 2, 5, 4],
    }
    columns |= changes
    path = folder / "records.parquet"
    pl.DataFrame(columns).write_parquet(path)
    return path


def read(
    path: Path, count: str | None = "count", repeated: Mapping[str, Factor] | None = None, **columns: str
):
    names = {"age": "age", "home": "home"} | columns
    return read_records(
        path, geocode="geocode", count=count, columns=names, schema=SCHEMA, spine=SPINE, repeated=repeated
    )


def test_counts_are_summed_by_geounit_and_cell(tmp_path):
    histogram = read(write(tmp_path))
    assert histogram.geolevel == "Town"
    assert histogram.offsets.tolist() == [0, 2, 2, 3]
    assert histogram.cells.tolist() == [0, 2, 3]
    assert histogram.counts.tolist() == [7, 2, 5]


def test_without_a_count_column_every_row_is_one_person(tmp_path):
    histogram = read(write(tmp_path), count=None)
    assert histogram.counts.tolist() == [2, 1, 1]


def test_the_log_says_that_records_were_read_and_no_number_of_them(tmp_path, caplog):
    caplog.set_level(logging.INFO, logger="tallyveil.confidential")
    read(write(tmp_path))
    assert "valid" in caplog.text
    assert not any(character.isdigit() for record in caplog.records for character in record.getMessage())


def test_csv_reads_the_same(tmp_path):
    path = write(tmp_path)
    csv = tmp_path / "records.csv"
    pl.read_parquet(path).write_csv(csv)
    assert read(csv).digest() == read(path).digest()


def test_row_order_does_not_matter_and_one_record_does(tmp_path):
    path = write(tmp_path)
    digest = read(path).digest()
    frame = pl.read_parquet(path)
    frame.reverse().write_parquet(path)
    assert read(path).digest() == digest
    frame.with_columns(pl.col("count") + pl.Series([1, 0, 0, 0])).write_parquet(path)
    assert read(path).digest() != digest


@pytest.mark.parametrize(
    ("changes", "kind", "code"),
    [
        ({"count": [3, -2, 5, 4]}, SchemaError, "bad-counts"),
        ({"count": [3, None, 5, 4]}, SchemaError, "bad-counts"),
        ({"count": [3.5, 2.0, 5.0, 4.0]}, SchemaError, "bad-counts"),
        ({"age": ["young", CANARY, "old", "young"]}, SchemaError, "unknown-level"),
        ({"age": ["young", None, "old", "young"]}, SchemaError, "unknown-level"),
        ({"geocode": ["A1", CANARY, "B1", "A1"]}, GeographyError, "unknown-geounit"),
        ({"geocode": ["A1", None, "B1", "A1"]}, GeographyError, "unknown-geounit"),
        ({"home": ["barracks", "house", "barracks", "house"]}, SchemaError, "structural-zero"),
        ({"geocode": [11, 12, 13, 14]}, ConfigError, "geocode-not-text"),
        ({"home": [[CANARY]] * 4}, SchemaError, "unknown-level"),
        ({"count": [date(2020, 4, 1)] * 4}, SchemaError, "bad-counts"),
    ],
)
def test_bad_records_are_refused_without_being_shown(tmp_path, changes, kind, code):
    with pytest.raises(kind) as caught:
        read(write(tmp_path, **changes))
    assert caught.value.code == code
    assert f"the records file {tmp_path / 'records.parquet'} " in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_record_in_a_structural_zero_is_refused_with_the_names_of_all(tmp_path):
    more = StructuralZero("no old at home", (("age", ("old",)), ("home", ("house",))))
    schema = Schema("people", SCHEMA.attributes, structural_zeros=(*SCHEMA.structural_zeros, more))
    with pytest.raises(SchemaError, match=r"'people' \('no young in barracks', 'no old at home'\)") as caught:
        read_records(
            write(tmp_path),
            geocode="geocode",
            count=None,
            columns={"age": "age", "home": "home"},
            schema=schema,
            spine=SPINE,
        )
    assert caught.value.code == "structural-zero"


def test_all_problems_are_shown_at_once(tmp_path):
    path = write(
        tmp_path, age=["x", "old", "old", "old"], geocode=["Z9", "A1", "A1", "A1"], count=[-1, 1, 1, 1]
    )
    with pytest.raises(TallyveilError, match="3 problems") as caught:
        read(path)
    for column in ("'age'", "'geocode'", "'count'"):
        assert column in str(caught.value)


def test_missing_file_and_column_say_how_to_mend(tmp_path):
    with pytest.raises(StoreError, match=r"the records file .* does not exist"):
        read(tmp_path / "absent.parquet")
    with pytest.raises(ConfigError, match=r"the records file (.|\n)*'agee'") as caught:
        read(write(tmp_path), age="agee")
    assert "'age'" not in str(
        caught.value
    )  # what stands in the file is not shown, be it a header or a record


def test_a_file_that_is_no_table_is_refused(tmp_path):
    path = tmp_path / "records.parquet"
    path.write_text(CANARY)
    with pytest.raises(StoreError) as caught:
        read(path)
    assert CANARY not in str(caught.value)


def test_a_line_of_too_many_fields_is_refused(tmp_path):
    path = tmp_path / "records.csv"
    pl.read_parquet(write(tmp_path)).write_csv(path)
    path.write_text(path.read_text() + f"A1,old,house,1,{CANARY}\n")
    with pytest.raises(StoreError, match="reading the records file") as caught:
        read(path)
    assert caught.value.code == "input-unreadable"
    assert CANARY not in str(caught.value)


def test_a_histogram_never_shows_its_counts(tmp_path):
    histogram = read(write(tmp_path, count=[77161, 2, 5, 4]))
    assert "7716" not in repr(histogram)
    assert "7716" not in str(histogram)


def test_aggregation_keeps_every_person(tmp_path):
    from tallyveil.confidential.histogram import aggregate_all

    region, town = aggregate_all(read(write(tmp_path)), SPINE)
    assert region.offsets.tolist() == [0, 2, 3]
    assert region.counts.tolist() == [7, 2, 5]
    assert np.sum(region.counts) == np.sum(town.counts)


@pytest.mark.parametrize("count", ["count", None])
def test_batches_give_what_the_whole_table_gives(tmp_path, monkeypatch, count):
    rng = np.random.default_rng(4)
    n = 500
    table = pl.DataFrame(
        {
            "geocode": [("A1", "A2", "B1")[code] for code in rng.integers(0, 3, n)],
            "age": [("young", "old")[code] for code in rng.integers(0, 2, n)],
            "home": ["house"] * n,
            "count": rng.integers(0, 5, n),
        }
    )
    path = tmp_path / "records.parquet"
    table.write_parquet(path)
    whole = read(path, count)
    monkeypatch.setattr("tallyveil.storage.read.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("tallyveil.schema.counts.ENTRIES_PENDING", 20)
    assert read(path, count).digest() == whole.digest()
    table.sort("geocode", "home", "age").write_parquet(path)
    assert read(path, count).digest() == whole.digest()


def test_a_problem_in_a_late_batch_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("tallyveil.storage.read.ROWS_AT_ONCE", 1)
    with pytest.raises(TallyveilError, match="2 problems"):
        read(write(tmp_path, age=["young", "old", "old", CANARY], count=[1, 1, -1, 1]))


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"count": -1}, "bad-counts"),
        ({"count": None}, "bad-counts"),
        ({"count": LARGEST_COUNT + 1}, "counts-too-large"),
        ({"age": CANARY}, "unknown-level"),
        ({"home": CANARY}, "unknown-level"),
        ({"geocode": CANARY}, "unknown-geounit"),
        ({"age": "young", "home": "barracks", "kind": "camp"}, "structural-zero"),
        ({"kind": "camp"}, "records-contradict"),
    ],
)
def test_a_fault_in_any_batch_is_found(tmp_path, monkeypatch, place, changes, code):
    """Sound batches before it and after it do not make it forgotten."""
    monkeypatch.setattr("tallyveil.storage.read.ROWS_AT_ONCE", 1)
    sound = {"geocode": "A1", "age": "old", "home": "house", "count": 3, "kind": "home"}
    rows = [{**sound, **changes} if row == place else sound for row in range(5)]
    path = tmp_path / "records.parquet"
    pl.DataFrame(rows).write_parquet(path)
    with pytest.raises(TallyveilError) as caught:
        read(path, repeated={"kind": QUARTERS})
    assert caught.value.code == code
    assert "problems" not in str(caught.value)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("at_once", [1, 100])
@pytest.mark.parametrize(
    "counts", [[LARGEST_COUNT, 0, 0, 0], [LARGEST_COUNT - 5, 2, 0, 3], [0, 0, 0, LARGEST_COUNT]]
)
def test_the_largest_population_is_read_and_one_more_person_is_not(tmp_path, monkeypatch, counts, at_once):
    monkeypatch.setattr("tallyveil.storage.read.ROWS_AT_ONCE", at_once)
    assert read(write(tmp_path, count=counts)).total == LARGEST_COUNT
    for place in range(4):
        more = [count + (row == place) for row, count in enumerate(counts)]
        with pytest.raises(SchemaError) as caught:
            read(write(tmp_path, count=more))
        assert caught.value.code == "counts-too-large"
        assert not any(str(count) in str(caught.value) for count in more if count > 9)


def test_counts_whose_sum_wraps_around_to_nothing_are_too_large(tmp_path):
    with pytest.raises(SchemaError) as caught:
        read(write(tmp_path, count=[2**62] * 4))  # 2**64 is 0 in 64 bits
    assert caught.value.code == "counts-too-large"


def test_rows_of_one_person_each_are_counted_up_to_the_largest_population(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "LARGEST_COUNT", 4)
    path = write(tmp_path)
    assert read(path, count=None).total == 4
    monkeypatch.setattr(records, "LARGEST_COUNT", 3)
    with pytest.raises(SchemaError) as caught:
        read(path, count=None)
    assert caught.value.code == "counts-too-large"


@pytest.mark.parametrize(
    ("n", "said"), [(12, "0, 1, .*, 11. Recode"), (13, r"0, 1, .*, 11, \.\.\.\. Recode")]
)
def test_only_the_first_levels_of_a_long_attribute_are_listed(tmp_path, n, said):
    schema = Schema("long", (Attribute("age", tuple(str(age) for age in range(n))),))
    with pytest.raises(SchemaError, match=f"are not levels of attribute 'age'. Its {n} levels are: {said}"):
        read_records(
            write(tmp_path), geocode="geocode", count=None, columns={"age": "age"}, schema=schema, spine=SPINE
        )


def test_every_broken_rule_is_told_beside_the_others(tmp_path):
    """But structural zeros: they are looked for among records that are sound otherwise."""
    path = write(
        tmp_path,
        age=[CANARY, "old", "old", "old"],
        geocode=["A1", CANARY, "A1", "A1"],
        count=[1, 1, -1, 1],
        kind=["home", "home", "camp", "camp"],
    )
    with pytest.raises(TallyveilError, match="4 problems") as caught:
        read(path, repeated={"kind": QUARTERS})
    said = str(caught.value).replace(str(path), "")
    assert caught.value.code == "bad-counts"
    for column in ("'count'", "'age'", "'geocode'", "'kind'"):
        assert f"column {column}" in said or column == "'geocode'" in said
    assert "column 'home' of" not in said
    assert CANARY not in said


def test_the_digest_does_not_see_the_dtype(tmp_path):
    narrow = read(write(tmp_path))
    assert narrow.cells.dtype == narrow.counts.dtype == np.int32
    wide = ConfidentialHistogram(
        narrow.geolevel, narrow.offsets, narrow.cells.astype(np.int64), narrow.counts.astype(np.int64)
    )
    assert wide.digest() == narrow.digest()


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["A1", "A2", "B1"])])
def test_words_kept_once_read_the_same(tmp_path, kind):
    path = write(tmp_path)
    digest = read(path).digest()
    frame = pl.read_parquet(path)
    frame.with_columns(pl.col("geocode").cast(kind), pl.col("age").cast(pl.Categorical)).write_parquet(path)
    assert read(path).digest() == digest


AGES = Schema("ages", (Attribute("age", ("18-64", "0-17", "65-84", "90+")),))


def read_ages(path: Path, ages: object, *, strict: bool = True) -> ConfidentialHistogram:
    frame = pl.DataFrame({"geocode": ["A1"] * len(ages), "years": pl.Series(ages, strict=strict)})
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return read_records(
        path,
        geocode="geocode",
        count=None,
        columns={"age": "years"},
        schema=AGES,
        spine=SPINE,
        numbers=("age",),
    )


@pytest.mark.parametrize("name", ["records.parquet", "records.csv"])
@pytest.mark.parametrize(
    "ages", [[0, 17, 18, 64, 65, 84, 90, 10**12], ["0", "17", "18", "64", "65", "84", "90", "118"]]
)
def test_numbers_are_put_into_their_ranges(tmp_path, name, ages):
    histogram = read_ages(tmp_path / name, ages)
    assert dict(zip(histogram.cells.tolist(), histogram.counts.tolist(), strict=True)) == {
        0: 2, 1: 2, 2: 2, 3: 2
    }  # fmt: skip


@pytest.mark.parametrize("age", [85, -1, 17.5, float("nan"), float("inf"), None, "17x", "", CANARY, "1e1"])
def test_a_number_in_no_range_is_not_shown(tmp_path, age):
    with pytest.raises(SchemaError, match="not whole numbers in a range of attribute 'age'") as caught:
        read_ages(
            tmp_path / "records.parquet", ["18", age] if isinstance(age, str) else [18, age], strict=False
        )
    assert CANARY not in str(caught.value)
    assert caught.value.code == "unknown-level"


@pytest.mark.parametrize(
    ("ages", "kind"),
    [
        (pl.Series(["18", CANARY], dtype=pl.Categorical), "Categorical"),
        (pl.Series([True, False]), "Boolean"),
        (pl.Series([3, 4], dtype=pl.Int32).cast(pl.Date), "Date"),
    ],
)
def test_a_column_without_numbers_is_not_taken_for_one(tmp_path, ages, kind):
    """A date would be a number of days, and a truth value 0 or 1."""
    with pytest.raises(SchemaError, match=kind) as caught:
        read_ages(tmp_path / "records.parquet", ages)
    assert CANARY not in str(caught.value)
    assert f"of the records file {tmp_path / 'records.parquet'} hold no numbers" in str(caught.value)


def test_a_duration_is_no_level_and_no_number(tmp_path):
    with pytest.raises(SchemaError, match="bytes or durations"):
        read_ages(tmp_path / "records.parquet", pl.Series([3, 4]).cast(pl.Duration))


def test_numbers_too_large_for_an_integer_are_in_no_range(tmp_path):
    with pytest.raises(SchemaError, match="not whole numbers in a range"):
        read_ages(tmp_path / "records.parquet", pl.Series([18, 2**63 + 18], dtype=pl.UInt64))


@pytest.mark.parametrize(
    ("quarters", "refused"),
    [
        (["home", "home", "camp", "home"], False),
        (["home", "home", "home", "home"], True),
        (["home", "camp", "camp", "home"], True),
        (["home", None, "camp", CANARY], False),  # what names no group says nothing of it
    ],
)
def test_a_column_that_contradicts_an_attribute_is_refused(tmp_path, quarters, refused):
    path = write(tmp_path, kind=quarters)
    if not refused:
        assert read(path, repeated={"kind": QUARTERS}).counts.tolist() == [7, 2, 5]
        return
    with pytest.raises(SchemaError, match=r"column 'kind'.*contradicts column 'home'") as caught:
        read(path, repeated={"kind": QUARTERS})
    assert caught.value.code == "records-contradict"
    for value in ("camp", "barracks", "house", "A1", CANARY):
        assert value not in str(caught.value).replace(str(path), "")


def read_codes(folder, geocodes, sexes):
    schema = Schema("people", (Attribute("sex", ("01", "02")),))
    spine = spine_from_prefixes(["0101", "0102", "1001"], ("State", "Block"), (2, 4))
    path = folder / "records.csv"
    rows = "".join(f"{code},{sex}\n" for code, sex in zip(geocodes, sexes, strict=True))
    path.write_text(f"geocode,sex\n{rows}")
    return read_records(
        path, geocode="geocode", count=None, columns={"sex": "sex"}, schema=schema, spine=spine
    )


ZEROS = "Values have lost their leading zeros"


@pytest.mark.parametrize(
    ("geocodes", "sexes", "named"),
    [
        (["0101", "102"], ["01", "02"], ["geocode"]),
        (["0101", "1001"], ["01", "2"], ["sex"]),
        (["101", "102"], ["1", "2"], ["geocode", "sex"]),
        (["0101", "9"], ["01", "3"], []),
    ],
)
def test_lost_leading_zeros_are_named_as_such_and_no_value_is_shown(tmp_path, geocodes, sexes, named):
    with pytest.raises(TallyveilError) as caught:
        read_codes(tmp_path, geocodes, sexes)
    problems = [line for line in str(caught.value).split("\n") if ZEROS in line]
    assert len(problems) == len(named)
    assert all(any(f"'{name}'" in line for line in problems) for name in named)
    assert "102" not in str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("place", ["header", "row"])
def test_a_file_in_latin_1_is_refused_with_its_line(tmp_path, place):
    text = (
        "geocode,sëx\n0101,01\n"
        if place == "header"
        else "geocode,sëx\n0101,01\n0101,naïve\n".replace("ë", "e")
    )
    (tmp_path / "records.csv").write_bytes(text.encode("latin-1"))
    schema = Schema("people", (Attribute("sex", ("01", "02")),))
    with pytest.raises(StoreError, match=f"of line {1 if place == 'header' else 3}") as caught:
        read_records(
            tmp_path / "records.csv",
            geocode="geocode",
            count=None,
            columns={"sex": "sëx" if place == "header" else "sex"},
            schema=schema,
            spine=spine_from_prefixes(["0101"], ("State", "Block"), (2, 4)),
        )
    assert caught.value.code == "input-encoding"
    assert "ComputeError" not in str(caught.value)
    assert "na" + "ve" not in str(caught.value)


def units_of(path: Path, unit: str = "house"):
    names = {"age": "age", "home": "home"}
    return read_units(path, geocode="geocode", unit=unit, columns=names, schema=SCHEMA, spine=SPINE)


@pytest.mark.parametrize("house", [["b", "a", None, "b"], [12, 7, None, 12]])
def test_every_record_has_its_unit_in_the_order_of_geounits_and_cells(tmp_path, house):
    read = units_of(write(tmp_path, house=house))
    assert read.geounits.tolist() == [0, 0, 0, 2]
    assert read.cells.tolist() == [0, 0, 2, 3]
    first, last, other, alone = read.units.tolist()
    # The two young of one house, in the order of the file; a record without a unit is a unit of its own.
    assert first == last
    assert len({first, other, alone}) == 3
    assert repr(read) == "RecordUnits(<redacted>)"


def test_units_of_records_that_break_a_rule_are_refused_without_showing_them(tmp_path):
    path = write(tmp_path, house=[CANARY] * 4, age=["young", CANARY, "old", "young"])
    with pytest.raises(SchemaError) as refused:
        units_of(path)
    assert refused.value.code == "unknown-level"
    assert CANARY not in str(refused.value)
    with pytest.raises(ConfigError):
        units_of(path, "no such column")


def test_no_records_have_no_units(tmp_path):
    path = write(tmp_path, house=["a"] * 4)
    pl.read_parquet(path).clear().write_parquet(path)
    assert units_of(path).units.size == 0


def test_a_number_that_is_none_is_no_household(tmp_path):
    path = tmp_path / "records.parquet"
    pl.DataFrame({"geocode": ["A1", "A1", "A2", "B1"], "home": [1.0, 1.0, float("nan"), None]}).write_parquet(
        path
    )
    schema = Schema("homes", (Attribute("size", ("1", "2+")),))
    histogram = read_records(
        path, geocode="geocode", count=None, columns={"size": "size"}, schema=schema, spine=SPINE,
        household=Households(id="home", number=(("size", MemberNumber()),)),
    )  # fmt: skip
    assert histogram.total == 1
