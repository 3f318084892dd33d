"""The kernels that other kernels of a family call through pointers.

One kernel with the code of all of them would take longer to compile than all of them by themselves, and two processes
could not share the work.
"""

from collections.abc import Callable
from typing import NamedTuple

from tallyveil.arrays import Bools, Floats, Int32Rows, Integers
from tallyveil.kernels.compiled import pointers
from tallyveil.kernels.family.face import Face, Signs
from tallyveil.kernels.family.program import Answer, PassArrays, Point, Program
from tallyveil.kernels.family.walk import Swaps, Walk
from tallyveil.kernels.rounding.arrays import Bounds, Entries


@pointers
class Faces(NamedTuple):
    """What `tallyveil.kernels.family.polish` calls.

    Attributes:
        list_face: The equations of a face (`tallyveil.kernels.family.face`).
        solve_face: Their solution (`tallyveil.kernels.family.face_solution`).
    """

    list_face: Callable[[Program, Signs, float, int], tuple[bool, Face]]
    solve_face: Callable[[Program, Face, Walk, float, bool], None]


@pointers
class PassParts(NamedTuple):
    """What `tallyveil.kernels.family.solver` calls.

    Attributes:
        reduce_arrays: From a pass to its program.
        approach: The interior-point method.
        descend: The descent over cells.
        polish: The walk from face to face.
        faces: What the walk calls.
    """

    reduce_arrays: Callable[[PassArrays], tuple[Program, Integers, Floats]]
    approach: Callable[[Program, Point], bool]
    descend: Callable[[Program, Point, float, int, float], int]
    polish: Callable[[Program, Point, float, int, Swaps, Faces], tuple[float, int]]
    faces: Faces


@pointers
class FamilyKernels(NamedTuple):
    """What `tallyveil.kernels.family.chunk` calls.

    Attributes:
        solve: The solver of a pass.
        parts: What the solver calls.
        round_up: The rounding of a family (`tallyveil.kernels.rounding.flow`).
    """

    solve: Callable[[PassArrays, PassParts], Answer]
    parts: PassParts
    round_up: Callable[[Int32Rows, Integers, Bools, Bounds, Entries, Integers], tuple[int, Integers]]
