"""`tallyveil warm-up`: compile what a release would compile at its first use."""

from pathlib import Path
from tempfile import TemporaryDirectory

from tallyveil.cli.demo import demo
from tallyveil.cli.frame.arguments import Quiet
from tallyveil.cli.frame.terminal import say

BLOCKS = 60
"""Enough for counties, tracts and block groups with several children each."""


def warm_up(quiet: Quiet = False) -> None:
    """Compile the kernels of a release and of its intervals, and keep them on disk for later commands.

    The command makes a small release of made-up people in a temporary folder, and removes it. Without this command, the
    first release compiles what it needs.
    """
    from tallyveil.postprocess.warm_up import compile_kernels

    compile_kernels(sweeps=True)
    with TemporaryDirectory(prefix="tallyveil-") as folder:
        demo(Path(folder), blocks=BLOCKS, quiet=True)
    from tallyveil.kernels.compiled import require_kept

    require_kept()
    if not quiet:
        say("The kernels of a release and of its intervals are compiled. Later commands load them from disk.")
