"""Write the wheel of this platform and Python, with compiled kernels: `python tools/bundle/kernels.py --out FOLDER`."""

import argparse
import os
import pickle
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from wheels import Wheel, build_wheel, source_epoch

from tallyveil.kernels.compiled import covered_baselines, this_processor

PROJECT = Path(__file__).resolve().parents[2]


class ThisProcessor:
    """In an index of compiled code, the processor of whoever reads the index."""

    def __reduce__(self) -> tuple[object, tuple[()]]:
        """What is written to the index: a call without arguments."""
        return this_processor, ()


def build_platform_wheel(into: Path, epoch: int) -> Wheel:
    """Compile the kernels for each processor of a wheel that this machine covers, and build a wheel with them."""
    with TemporaryDirectory(prefix="tallyveil-kernels-") as temporary:
        carried = Path(temporary) / "carried"
        for name in covered_baselines():
            compile_for(name, Path(temporary) / name)
            take(Path(temporary) / name / "tallyveil" / "kernels", carried)
        return build_wheel(PROJECT, into, epoch, {"TALLYVEIL_KERNELS": str(carried)})


def compile_for(name: str, into: Path) -> None:
    """Compile what `tallyveil warm-up` compiles, for a processor that this machine covers."""
    settings = {"NUMBA_CACHE_DIR": str(into), "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
    source = {"PYTHONPATH": str(PROJECT / "src")}
    command = [sys.executable, "-m", "tallyveil", "warm-up", "--quiet"]
    subprocess.run(command, env={**os.environ, **settings, **source}, check=True)


def take(kernels: Path, carried: Path) -> None:
    """Copy compiled code without the folders that numba names by the place of the package."""
    for path in kernels.glob("*/*/*/*.nb[ci]"):
        module, digest, _, name = path.relative_to(kernels).parts
        copy = carried / module / digest / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(for_any_machine(path) if path.suffix == ".nbi" else path.read_bytes())


def for_any_machine(index: Path) -> bytes:
    """An index of numba in which the code is for the processor of whoever reads it."""
    with index.open("rb") as file:
        version = pickle.load(file)  # noqa: S301 - written by this program's child
        stamp, codes = pickle.load(file)  # noqa: S301
    reader = ThisProcessor()
    codes = {(signature, reader, function): name for (signature, _, function), name in codes.items()}
    return pickle.dumps(version) + pickle.dumps((stamp, codes))


def main() -> None:
    """Build the wheel and say where it is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=PROJECT / "dist", help="folder for the wheel")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    wheel = build_platform_wheel(out, source_epoch(PROJECT))
    print(f"{wheel.sha256}  {wheel.path}")


if __name__ == "__main__":
    main()
