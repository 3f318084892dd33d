"""How the code is held of a function that only kernels call.

numba turns every function that it compiles into machine code, after two rounds of optimisation. A kernel uses neither
for the functions that it calls. It takes their intermediate code, puts it into its own and optimises the whole. For a
function that only kernels call, both are work in vain, which would take a quarter of the time of compiling. So the code
of such a function stays intermediate code, and it is not kept on disk: a kernel that is on disk needs it no more.
"""

from typing import Any

from numba.core import codegen, compiler

_NumbaLibrary: Any = codegen.JITCodeLibrary
_NumbaCompiler: Any = compiler.Compiler


class PartLibrary(_NumbaLibrary):  # type: ignore[misc]
    """Intermediate code of a function and of what it calls. numba calls these methods; it optimises each function."""

    def _optimize_final_module(self) -> None:
        """Leave the whole to the kernel that it becomes a part of."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """The null pointer, by which numba knows that there is no machine code."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> "PartLibrary":
        """What numba asks to set the environment of a function: this library, since only machine code has one."""
        return self

    def set_env(self, name: str, environment: object) -> None:
        """Nothing to do."""


class PartCompiler(_NumbaCompiler):  # type: ignore[misc]
    """numba's compiler, with a `PartLibrary` to compile into."""

    def define_pipelines(self) -> Any:
        """The steps of compiling, which are numba's."""
        self.state.library = PartLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        return super().define_pipelines()
