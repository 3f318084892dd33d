"""A way for tests to call a function that only kernels call."""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher


def from_python(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, compiled so that Python can call it. Without compilation it is returned as it is."""
    return njit(nogil=True)(kernel.py_func) if isinstance(kernel, Dispatcher) else kernel
