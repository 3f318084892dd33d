"""The wheel of the archive, as `make wheel` makes it, is installed elsewhere, and nothing is compiled there."""

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import numba
import pytest

V3 = {"NUMBA_CPU_NAME": "x86-64-v3", "NUMBA_CPU_FEATURES": ""}

pytestmark = pytest.mark.bundle

COUNTED = """
import json, runpy, sys
from numba.core import event
# Every compilation of a function, parts of kernels included.
recorder = event.RecordingListener()
event.register("numba:compile", recorder)
sys.argv = ["tallyveil", "demo", "--quiet", "--out", *sys.argv[1:]]
try:
    runpy.run_module("tallyveil", run_name="__main__")
except SystemExit as end:
    assert not end.code
starts = sum(one.is_start for _, one in recorder.buffer)
import tallyveil
print(json.dumps({"compiled": starts, "package": tallyveil.__file__}))
"""


@pytest.fixture(scope="module")
def wheel(bundle) -> Path:
    (path,) = (bundle / "wheels").glob("tallyveil-*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """An environment on another path. Its other packages are those of the environment of the tests."""
    folder = tmp_path_factory.mktemp("elsewhere") / "environment"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    program = folder / "bin" / "python"
    subprocess.run([program, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    (packages,) = folder.glob("lib/*/site-packages")
    (packages / "others.pth").write_text(f"{Path(numba.__file__).parents[1]}\n")
    for path in packages.glob("tallyveil/kernels/carried/**/*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return program


def released(python: Path, folder: Path, settings: dict[str, str], blocks: str) -> tuple[dict, str]:
    """What was compiled for a release of made-up people, with an empty cache, and what was said."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON"))}
    told = subprocess.run(
        [python, "-c", COUNTED, folder / "demo", "--blocks", blocks],
        env={**clean, "NUMBA_CACHE_DIR": str(folder / "codes"), **settings},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout.splitlines()[-1]), told.stderr


def test_the_wheel_is_for_this_platform_and_python(wheel):
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert f"-{version}-{version}-" in wheel.name
    assert sysconfig.get_platform().replace("-", "_").replace(".", "_") in wheel.name


@pytest.mark.parametrize("blocks", ["60", "1000"])
@pytest.mark.parametrize(
    "settings", [{}, V3, {"NUMBA_CPU_NAME": "generic"}], ids=["host", "x86-64-v3", "generic"]
)
def test_nothing_is_compiled(python, tmp_path, settings, blocks):
    done, said = released(python, tmp_path, settings, blocks)
    assert "the compiled code in" not in said
    assert str(done["package"]).startswith(str(python.parents[1]))
    assert done["compiled"] == 0


def test_another_processor_compiles_and_says_so(python, tmp_path):
    """So the count of the test above counts."""
    done, said = released(python, tmp_path, {**V3, "NUMBA_CPU_NAME": "x86-64-v2"}, "60")
    assert done["compiled"] > 100
    assert said.count("the compiled code in") == 1
