"""Write the wheel of this platform and Python, with compiled kernels: `python tools/bundle/kernels.py --out FOLDER`."""

import argparse
import os
import pickle
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from wheels import Wheel, build_wheel, source_epoch

from tallyveil.kernels.compiled import baseline, covered_baselines, seal, this_processor

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
            take(Path(temporary) / name / "tallyveil" / "kernels", name, carried)
        return build_wheel(PROJECT, into, epoch, carried)


def compile_for(name: str, into: Path) -> None:
    """Compile what `tallyveil warm-up` compiles, for a processor that this machine covers."""
    settings = {"NUMBA_CACHE_DIR": str(into), "NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""}
    settings["NUMBA_DISABLE_INTEL_SVML"] = "1"  # a library that another machine may lack
    source = {"PYTHONPATH": str(PROJECT / "src")}
    command = [sys.executable, "-m", "tallyveil", "warm-up", "--quiet"]
    subprocess.run(command, env={**os.environ, **settings, **source}, check=True)


def take(kernels: Path, name: str, carried: Path) -> None:
    """Copy compiled code with seals, without the folders named by the place of the package."""
    for path in kernels.glob("*/*/*/*.nb[ci]"):
        module, digest, _, file = path.relative_to(kernels).parts
        data = for_any_machine(path, name) if path.suffix == ".nbi" else path.read_bytes()
        copy = carried / module / digest / file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(data)
    seal(carried)


def for_any_machine(index: Path, name: str) -> bytes:
    """An index of numba in which the code is for the processor of whoever reads it.

    The form of an index is no interface of numba, so a new version may change it. Then no wheel is made.
    """
    with index.open("rb") as file:
        version = pickle.load(file)  # noqa: S301 - written by this program's child
        stamp, codes = pickle.load(file)  # noqa: S301
    # Earlier versions stamp an index with the time of the source, which is another in each installation.
    if not isinstance(stamp, bytes) or {processor for _, processor, _ in codes} != {baseline(name)}:
        raise SystemExit(f"the indexes of numba {version} have another form than those of 0.68: {index}")
    reader = ThisProcessor()
    codes = {(signature, reader, function): code for (signature, _, function), code in codes.items()}
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
