"""Which cluster is asked for, and what opens a run there."""

import pytest

from tallyveil.errors import ClusterError, ConfigError
from tallyveil.runs.executor import ClusterSettings, is_address, opener_of


@pytest.mark.parametrize("address", ["10.0.0.1:6379", "head:1", "a-b.example_x:65535", "[::1]:6379"])
def test_an_address_names_a_machine_and_a_port(address):
    assert is_address(address)
    assert ClusterSettings(address).address == address


@pytest.mark.parametrize(
    "address",
    [
        *("", "nonsense", "head:", ":6379", "head:0", "head:65536", "head:١", "ray://head:10001", "::1:6379"),
        *("head:1\n", "he\x1bad:1", "a b:1", "auto", "[::1:1", 6379),
    ],
)
def test_anything_else_is_no_address(address):
    with pytest.raises(ConfigError, match="the address of a cluster is") as caught:
        ClusterSettings(address)
    assert caught.value.code == "bad-argument"


@pytest.mark.parametrize("workers", [0, -1, True, 1.0, "2"])
def test_there_is_a_worker_process(workers):
    with pytest.raises(ConfigError, match="number of worker processes") as caught:
        ClusterSettings(workers=workers)
    assert caught.value.code == "bad-argument"
    assert ClusterSettings(workers=1).workers == 1


def test_openers_are_functions_of_modules():
    assert opener_of(f"{__name__}:{test_openers_are_functions_of_modules.__name__}") is not None
    for name in ("tallyveil.nowhere:f", "tallyveil.errors:nothing", "tallyveil.errors", ""):
        with pytest.raises(ClusterError, match="cannot import") as caught:
            opener_of(name)
        assert caught.value.code == "cluster-version"
