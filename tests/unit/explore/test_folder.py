"""The folder of a site: replaced as a whole, and nothing else is ever removed."""

from pathlib import Path

import pytest

from tallyveil.errors import StoreError
from tallyveil.explore.files import replaced_site as held


def replaced_site(site, inputs=()):
    return held(site, inputs)


def fill(folder, text="new"):
    (folder / "data").mkdir()
    (folder / "data" / "site.json").write_text(text)


def site_text(site):
    return (site / "data" / "site.json").read_text()


def test_a_new_site(tmp_path):
    with replaced_site(tmp_path / "a" / "site") as folder:
        fill(folder)
        assert not (tmp_path / "a" / "site").exists()
    assert site_text(tmp_path / "a" / "site") == "new"
    assert [entry.name for entry in (tmp_path / "a").iterdir()] == ["site"]


def test_an_earlier_site_is_replaced(tmp_path):
    site = tmp_path / "site"
    for text in ("first", "second"):
        with replaced_site(site) as folder:
            fill(folder, text)
            if text == "first":
                (folder / "vendor").mkdir()
    assert site_text(site) == "second"
    assert not (site / "vendor").exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["site"]


def test_an_empty_folder_is_taken(tmp_path):
    (tmp_path / "site").mkdir()
    with replaced_site(tmp_path / "site") as folder:
        fill(folder)
    assert site_text(tmp_path / "site") == "new"


def test_a_failure_leaves_the_earlier_site(tmp_path):
    with replaced_site(tmp_path / "site") as folder:
        fill(folder, "first")
    with pytest.raises(FileExistsError), replaced_site(tmp_path / "site") as folder:
        (folder / "data").mkdir(exist_ok=False) or fill(folder, "second")
    assert site_text(tmp_path / "site") == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["site"]


@pytest.mark.parametrize("with_site", [True, False])
def test_other_files_are_never_removed(tmp_path, with_site):
    site = tmp_path / "site"
    site.mkdir()
    if with_site:
        fill(site)
    (site / "thesis.tex").write_text("")
    with (
        pytest.raises(StoreError, match=r"thesis\.tex, which no explorer wrote") as caught,
        replaced_site(site),
    ):
        pass
    assert caught.value.code == "not-a-site"
    assert (site / "thesis.tex").exists()


def test_a_file_is_refused(tmp_path):
    (tmp_path / "site").write_text("")
    with pytest.raises(StoreError, match="is a file"), replaced_site(tmp_path / "site"):
        pass


def test_a_mount_point_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path / "site")
    with pytest.raises(StoreError, match="is a mount point") as caught, replaced_site(tmp_path / "site"):
        pytest.fail("the work began")
    assert caught.value.code == "not-a-site"


def test_the_folder_of_work(tmp_path, monkeypatch):
    """A path without a name of its own, such as `.`, is a folder like any other."""
    (tmp_path / "site").mkdir()
    monkeypatch.chdir(tmp_path / "site")
    with replaced_site(Path()) as folder:
        fill(folder)
    assert site_text(tmp_path / "site") == "new"


def test_two_processes_do_not_write_one_site(tmp_path):
    with replaced_site(tmp_path / "site") as folder:
        fill(folder, "first")
        with (
            pytest.raises(StoreError, match="another process") as caught,
            replaced_site(tmp_path / "site"),
        ):
            pass
    assert caught.value.code == "folder-locked"
    assert site_text(tmp_path / "site") == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["site"]


def test_what_a_killed_process_left_is_taken_over(tmp_path):
    """It was killed between its two renames: the earlier site is beside, and no site is in its place."""
    fill_site = tmp_path / ".site.tallyveil-earlier"
    fill_site.mkdir()
    fill(fill_site, "earlier")
    (tmp_path / ".site.tallyveil-unfinished" / "data").mkdir(parents=True)
    (tmp_path / ".site.tallyveil-lock").write_text("")
    with pytest.raises(KeyError), replaced_site(tmp_path / "site"):
        raise KeyError
    assert site_text(tmp_path / "site") == "earlier"
    assert [entry.name for entry in tmp_path.iterdir()] == ["site"]


def test_an_input_in_the_site_is_not_removed(tmp_path):
    with replaced_site(tmp_path / "site") as folder:
        fill(folder)
        (folder / "data" / "release").mkdir()
    inside = tmp_path / "site" / "data" / "release"
    with pytest.raises(StoreError) as caught, replaced_site(tmp_path / "site", [inside]):
        pass
    assert caught.value.code == "input-in-output"
    assert inside.exists()


def test_a_failure_leaves_no_parents(tmp_path):
    with pytest.raises(KeyError), replaced_site(tmp_path / "a" / "b" / "site"):
        raise KeyError
    assert not list(tmp_path.iterdir())
