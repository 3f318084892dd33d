"""Arrays of numbers in one file, as a page reads them."""

import numpy as np
import pytest

from tallyveil.errors import StoreError
from tallyveil.explore.district import NumbersFile


def test_arrays_are_read_back_from_their_entries(tmp_path):
    floats = np.array([0.1, -2.5, np.inf])
    whole = {"small": [0, 255], "middle": [3, 256, 65_535], "large": [65_536], "none": []}
    numbers = NumbersFile()
    assert numbers.add_floats("floats", floats) == "floats"
    for name, values in whole.items():
        assert numbers.add_whole(name, values) == name
    numbers.write(tmp_path / "folder" / "numbers.bin")
    content = (tmp_path / "folder" / "numbers.bin").read_bytes()
    assert len(content) == numbers.size

    def read(name):
        kind, begin, length = numbers.entries[name]
        assert begin % 8 == 0  # a page could make no typed array otherwise
        return kind, np.frombuffer(content, f"<{kind}", length, begin).tolist()

    assert read("floats") == ("f8", floats.tolist())
    assert read("small") == ("u1", whole["small"])
    assert read("middle") == ("u2", whole["middle"])
    assert read("large") == ("u4", whole["large"])
    assert read("none") == ("u1", [])


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        NumbersFile().write(tmp_path / "file" / "numbers.bin")
