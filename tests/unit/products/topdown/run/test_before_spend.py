"""What is refused before anything is spent: folders that cannot be used, and machines that are too small."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tallyveil.errors import StoreError
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.products.topdown.run import before_spend
from tallyveil.products.topdown.run.before_spend import inputs_of, refuse_folder, refuse_many_people
from tallyveil.products.topdown.run.inputs import read_histograms, read_spine


@pytest.fixture
def plan(small_release):
    return load_plan(small_release)


def test_every_file_that_is_read_is_an_input(plan, small_release):
    names = {path.name for path in inputs_of(plan)}
    assert names == {"people.parquet", "geography.parquet", "barracks.parquet"}


def test_a_folder_that_holds_an_input_is_refused(plan, small_release, tmp_path):
    refuse_folder(plan, tmp_path / "out")
    for out in (small_release.parent, small_release.parent / "people.parquet"):
        with pytest.raises(StoreError):
            refuse_folder(plan, out)


def test_a_path_that_leaves_no_room_for_the_files_is_refused(plan, tmp_path):
    deep = tmp_path
    while len(str(deep)) < 3900:
        deep = deep / ("d" * 100)
    deep = deep / ("d" * (4080 - len(str(deep))))
    with pytest.raises(StoreError) as caught:
        refuse_folder(plan, deep)
    assert caught.value.code == "path-too-long"
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(("short", "code"), [("disk", "disk-full"), ("memory", "memory-small")])
def test_a_machine_too_small_is_refused_without_a_number_of_people(plan, tmp_path, monkeypatch, short, code):
    spine = read_spine(plan.geography)
    people = 123_456_789

    def predicted(plan, sizes):
        large = sizes.people == people
        return SimpleNamespace(disk=10**15 if large and short == "disk" else 1, memory=10**15 if large else 1)

    monkeypatch.setattr(before_spend, "predict", predicted)
    monkeypatch.setattr(
        before_spend, "sizes_of_spine", lambda spine, people=0: SimpleNamespace(people=people)
    )
    monkeypatch.setattr(before_spend, "refuse_small_disk", lambda *_: None)
    monkeypatch.setattr(before_spend, "free_disk", lambda _: 10**9)
    monkeypatch.setattr(before_spend, "machine_memory", lambda: 10**9)
    refuse_many_people(plan, spine, tmp_path / "out", 5)
    with pytest.raises(StoreError) as caught:
        refuse_many_people(plan, spine, tmp_path / "out", people)
    assert caught.value.code == code
    assert not any(text in str(caught.value) for text in ("123", "GiB", "MiB"))


def test_spines_and_histograms_agree_with_the_records(plan):
    spine = read_spine(plan.geography)
    assert [spine.n_geounits(level) for level in range(3)] == [2, 8, 48]
    totals = {one.geolevel: one.total for one in read_histograms(plan, spine)}
    assert len(set(totals.values())) == 1
    assert set(totals) == {"Region", "Town", "Block"}


def test_a_geography_of_another_column_is_refused(plan):
    with pytest.raises(StoreError):
        read_spine(replace(plan.geography, path=plan.geography.path.with_name("nowhere.parquet")))
