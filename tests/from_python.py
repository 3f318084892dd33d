"""A way for tests to call a function that only kernels call."""

from collections.abc import Callable
from typing import Any

from numba import njit


def from_python(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, compiled so that Python can call it. Without compilation it is returned as it is."""
    compiled: Callable[..., Any] = njit(nogil=True)(getattr(kernel, "py_func", kernel))
    return compiled
