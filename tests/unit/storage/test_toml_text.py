"""TOML that is written reads back as the same values."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from tallyveil.storage.json_files import toml_table

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(
    st.dictionaries(WORDS, WORDS | st.integers() | st.booleans() | st.lists(WORDS, max_size=3), max_size=4)
)
def test_what_is_written_reads_back(entries):
    assert tomllib.loads(toml_table("table", entries)) == {"table": entries}
