"""The address layout, byte by byte."""

import numpy as np
import pytest

from tallyveil.errors import GeographyError, SchemaError
from tallyveil.noise.address import (
    CELLS,
    REFINEMENT,
    checked_answers,
    checked_geounits,
    high_word,
    pack_address,
)


def test_address_bytes_are_golden() -> None:
    high = int(high_word(CELLS, 0x12, 0x3456)) | 0x789ABCDEF
    assert pack_address(0x0123456789AB, high).hex() == "ab89674523010000" + "efcdab8967452301"
    assert int(high_word(REFINEMENT, 0, 0)) == 1 << 60
    assert int(high_word(CELLS, 1, 0)) == 1 << 52
    assert int(high_word(CELLS, 0, 1)) == 1 << 36
    highest = int(high_word(15, 255, 65535))
    assert highest == (1 << 64) - (1 << 36)
    assert pack_address((1 << 64) - 2, highest).hex() == "fe" + 7 * "ff" + "000000" + "00f0" + 3 * "ff"


@pytest.mark.parametrize("geolevel", [-1, 256])
def test_geolevel_out_of_range(geolevel: int) -> None:
    with pytest.raises(GeographyError, match=rf"is {geolevel}, wanted 0 to 255\. Use at most 256 geolevels"):
        high_word(CELLS, geolevel, 0)


@pytest.mark.parametrize("query", [-1, 65536])
def test_query_out_of_range(query: int) -> None:
    with pytest.raises(SchemaError, match=rf"is {query}, wanted 0 to 65535\. Use at most 65536 query groups"):
        high_word(CELLS, 0, query)


def test_ranges_and_arrays_are_the_same() -> None:
    np.testing.assert_array_equal(checked_geounits(range(9, 3, -2)), [9, 7, 5])
    assert checked_geounits(np.arange(4, dtype=np.uint8)[::2]).dtype == np.int64
    assert checked_geounits([]).size == 0
    assert checked_geounits([(1 << 36) - 1]).tolist() == [(1 << 36) - 1]
    assert checked_answers([(1 << 48) - 1]).tolist() == [(1 << 48) - 1]
