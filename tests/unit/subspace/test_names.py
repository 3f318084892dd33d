"""The names that the package imports on first use all resolve."""

import pytest

from tallyveil import subspace


@pytest.mark.parametrize("name", subspace.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(subspace, name) is not None
