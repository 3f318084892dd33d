"""How parts of a kernel are compiled.

A compiled function carries the machine code of everything it calls, which is optimised again for each caller: a
chain of calls six deep costs six times its last link. The first compilation of all therefore depends on how deep
and how often large kernels are inlined into each other, not on their length. Three decorators keep it short:

- `@njit(nogil=True, cache=True)` is for a kernel that Python calls.
- `internal` is for a function that only kernels call. It leaves out the wrappers that Python would need.
- `inlined` is for a long function with one caller. It is compiled as lines of its caller, not by itself.

A variable that begins with a literal number is for a while of that literal's own type, and a kernel called with it
is compiled for that type too, in vain: `int(np.int64(0))` is not a literal.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


def internal(function: Kernel) -> Kernel:
    """Decorator of what only kernels call."""
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return cast(Kernel, njit(**options, nogil=True, cache=True)(function))


def inlined(function: Kernel) -> Kernel:
    """Decorator of a long function with one caller, which it becomes lines of."""
    return cast(Kernel, njit(nogil=True, cache=True, inline="always")(function))
