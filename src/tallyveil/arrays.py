"""The array types of the source: one name for each type of number.

A module that annotates an array takes the name from here instead of defining its own. A name says how numpy stores the
numbers. What the numbers mean is said where the array is used.

A kernel that is called through a pointer takes its types from these names (`tallyveil.kernels.compiled`). There, an
array has one dimension, unless its name says `Rows` or `Blocks`.
"""

from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# numpy's names of types are spelled out once, here. A kernel that is compiled for its annotations refuses arrays of
# another type.
Bools: TypeAlias = NDArray[np.bool_]
Int8s: TypeAlias = NDArray[np.int8]
Int16s: TypeAlias = NDArray[np.int16]
Int32s: TypeAlias = NDArray[np.int32]

Integers: TypeAlias = NDArray[np.int64]
"""Integers of 64 bits: counts, offsets, positions."""

Bytes: TypeAlias = NDArray[np.uint8]
Uint16s: TypeAlias = NDArray[np.uint16]
Uint32s: TypeAlias = NDArray[np.uint32]

Unsigned: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""Whole numbers from 0, in a type that is chosen by the largest of them."""

Words: TypeAlias = NDArray[np.uint64]
"""Unsigned words of 64 bits: random bits, and tables of cumulative probabilities."""

Floats: TypeAlias = NDArray[np.float64]
Complexes: TypeAlias = NDArray[np.complex128]

# The number stands for dimensions, which `tallyveil.kernels.compiled.numba_type` reads.
BoolRows: TypeAlias = Annotated[Bools, 2]
Int8Rows: TypeAlias = Annotated[Int8s, 2]
Int32Rows: TypeAlias = Annotated[Int32s, 2]
IntegerRows: TypeAlias = Annotated[Integers, 2]
WordRows: TypeAlias = Annotated[Words, 2]
FloatRows: TypeAlias = Annotated[Floats, 2]
"""Arrays of two dimensions, stored row by row."""

FloatBlocks: TypeAlias = Annotated[Floats, 3]
"""Arrays of three dimensions: one array of rows after the other."""

NarrowArray: TypeAlias = NDArray[np.int32] | NDArray[np.int64]
"""Integers of 32 bits where every value fits, otherwise of 64."""

Numbers: TypeAlias = NDArray[Any]
"""Numbers of a type that the caller chooses, for instance floats or exact Python integers."""
