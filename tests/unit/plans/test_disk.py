"""A disk too small for a release is refused before anything is spent; free space is that of the folder to be made."""

import shutil

import pytest

from tallyveil.errors import StoreError
from tallyveil.plans import resources
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.resources import free_disk, predict, refuse_small_disk, sizes_of_spine
from tallyveil.products.topdown.run.inputs import read_spine


def test_the_space_of_the_nearest_folder_that_is_there(tmp_path):
    assert free_disk(tmp_path / "a" / "b" / "c") == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_release_needs_what_is_predicted_and_no_byte_more(small_release, tmp_path, monkeypatch, more):
    plan = load_plan(small_release)
    spine = read_spine(plan.geography)
    wanted = predict(plan, sizes_of_spine(spine))
    monkeypatch.setattr(resources, "free_disk", lambda out: wanted.disk + more)
    if more >= 0:
        refuse_small_disk(wanted, tmp_path)
        return
    with pytest.raises(StoreError, match="MiB free") as caught:
        refuse_small_disk(wanted, tmp_path)
    assert caught.value.code == "disk-full"
    assert "Nothing was spent" in str(caught.value)
