"""Folders of the toy country of SafeTab, and the production parameters."""

from pathlib import Path

import pytest
from tests import toy_country as toy


@pytest.fixture
def params(tmp_path: Path) -> Path:
    """A valid parameter folder."""
    return toy.write_params(tmp_path / "params")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A valid data folder of 3,000 persons."""
    return toy.write_data(tmp_path / "data", toy.person_rows(3000))


@pytest.fixture
def production(shared_data: Path) -> Path:
    """The production parameter files."""
    return shared_data / "safetab" / "safetab_p_NMFv7-2020"
