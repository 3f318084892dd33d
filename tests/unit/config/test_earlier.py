"""Release files that name earlier releases of a programme without a path."""

from pathlib import Path
from typing import Any

import pytest

from tallyveil.config.earlier import with_folders
from tallyveil.errors import ConfigError

FOLDERS = {"first": Path("/made/first"), "second": Path("/made/second")}


def test_a_name_gets_the_folder_of_the_release():
    content: dict[str, Any] = {
        "agreement": [{"name": "second", "query": "total"}, {"name": "elsewhere", "path": "old"}],
        "a": 1,
    }
    filled, reads = with_folders(content, FOLDERS, "release.toml")
    assert filled == {
        "agreement": [
            {"name": "second", "query": "total", "path": "/made/second"},
            {"name": "elsewhere", "path": "old"},
        ],
        "a": 1,
    }
    assert reads == ("second",)
    assert "path" not in content["agreement"][0]


def test_a_release_that_is_read_twice_is_named_once():
    content = {"agreement": [{"name": "first"}, {"name": "second"}, {"name": "first"}]}
    assert with_folders(content, FOLDERS, "release.toml")[1] == ("first", "second")


@pytest.mark.parametrize("odd", [None, 3, "first", {}, [3, {"name": 4}, {}]])
def test_what_has_another_shape_is_left_to_the_check_of_the_file(odd):
    content = {"agreement": odd}
    assert with_folders(content, FOLDERS, "release.toml") == (content, ())


@pytest.mark.parametrize(("folders", "known"), [(FOLDERS, "first, second"), ({}, "none")])
def test_a_name_of_no_earlier_release_is_refused(folders, known):
    with pytest.raises(ConfigError, match=f"Earlier releases: {known}") as caught:
        with_folders({"agreement": [{"name": "third"}]}, folders, "release.toml")
    assert caught.value.code == "unknown-release"
