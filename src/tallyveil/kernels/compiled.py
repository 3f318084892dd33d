"""How parts of a kernel are compiled.

A compiled function carries the machine code of everything it calls, which is optimised again for each caller: a
chain of calls six deep costs six times its last link. The first compilation of all therefore depends on how deep
and how often the large kernels stand in each other, not on their length. A kernel that Python calls is
`@njit(nogil=True, cache=True)`; of what only kernels call, `part` leaves out the wrappers that Python would need, and
`written_out` is for long functions with one caller, which are compiled as lines of it and not by themselves.

A variable that begins with a literal number is for a while of that literal's own type, and a kernel called with it
is compiled for that type too, in vain: `int(np.int64(0))` is not a literal.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def part(function: Kernel) -> Kernel:
    """Decorator of what only kernels call."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Kernel, njit(**options, nogil=True, cache=True)(function))


def written_out(function: Kernel) -> Kernel:
    """Decorator of a long function with one caller, which it becomes lines of."""
    return cast(Kernel, njit(nogil=True, cache=True, inline="always")(function))
