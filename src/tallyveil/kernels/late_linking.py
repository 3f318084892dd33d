"""Compiled code that is taken from disk without what only the compiler needs.

numba keeps two forms of each compiled kernel: machine code, and LLVM's code, which is linked into other kernels when
these are compiled. It reads both when it takes a kernel from disk, and LLVM's code takes most of that time. A command
whose kernels are all on disk compiles nothing and never links. So LLVM's code is read here when a kernel is first
linked. What numba asks of it otherwise, the names of its functions and variables, is kept beside it.
"""

from functools import cache
from typing import Any

from numba.core import caching, codegen

_LLVM: Any = codegen.ll  # type: ignore[attr-defined]
_NumbaForm: Any = caching.CompileResultCacheImpl


class LateLinking(_NumbaForm):  # type: ignore[misc]
    """The form in which numba keeps compiled code, with LLVM's code apart."""

    def __init__(self, form: Any) -> None:
        """Take the place of numba's form of a kernel."""
        self.__dict__.update(vars(form))

    def reduce(self, compiled: Any) -> Any:
        """What is kept of compiled code: names, LLVM's code, and all else as numba has it, with no code of LLVM."""
        (name, kind, (machine_code, linkable)), *rest = super().reduce(compiled)
        module = compiled.library._get_module_for_linking()
        own = [thing for things in (module.functions, module.global_variables) for thing in things]
        names = tuple(thing.name for thing in own if not thing.is_declaration)
        nothing = _LLVM.parse_assembly(str(compiled.codegen._create_empty_module(name))).as_bitcode()
        return names, linkable, ((name, kind, (machine_code, nothing)), *rest)

    def rebuild(self, target: Any, kept: Any) -> Any:
        """Compiled code from what is kept of it. It reads LLVM's code when another kernel is linked with it."""
        names, linkable, rest = kept
        target.codegen()._engine._defined_symbols.update(names)
        compiled = super().rebuild(target, rest)
        compiled.library._get_module_for_linking = cache(lambda: _LLVM.parse_bitcode(linkable))
        return compiled
