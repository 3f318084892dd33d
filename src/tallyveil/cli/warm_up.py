"""`tallyveil warm-up`: compile what a release would compile at its first use, or remove what was compiled."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tallyveil.cli.demo import demo
from tallyveil.cli.frame.arguments import AsJson, Quiet
from tallyveil.cli.frame.terminal import say, say_json

BLOCKS = 1000
"""As many as `tallyveil demo` makes: counties, tracts and block groups have several children each, and answers of the
whole do not fit into two bytes. Kernels are compiled for answers of two bytes and for those of four."""


def warm_up(
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Remove the compiled kernels of all installations of this user, and compile nothing.",
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Compile the kernels of a release and of its intervals, and keep them on disk for later commands.

    The command makes a small release of made-up people in a temporary folder, and removes it. Without this command, the
    first release compiles what it needs. Compiled kernels are in the user's cache folder, or in the one that the
    environment variable NUMBA_CACHE_DIR names.
    """
    from tallyveil.kernels.compiled import bytes_on_disk, kernels_folder, remove_code

    folder = kernels_folder()
    if remove:
        size = remove_code()
        text = f"Removed {_megabytes(size)} of compiled kernels in {folder}."
    else:
        _compile()
        size = bytes_on_disk()
        text = (
            "The kernels of a release and of its intervals are compiled. Later commands load them from disk.\n"
            f"{folder} has {_megabytes(size)} of compiled kernels, of all installations of this user."
        )
    if as_json:
        say_json({"folder": str(folder), "removed": remove, "bytes": size})
    elif not quiet:
        say(text)


def _compile() -> None:
    from tallyveil.kernels.compiled import require_kept
    from tallyveil.postprocess.warm_up import compile_kernels

    compile_kernels(sweeps=True)
    with TemporaryDirectory(prefix="tallyveil-") as folder:
        demo(Path(folder), blocks=BLOCKS, quiet=True)
    require_kept()


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
