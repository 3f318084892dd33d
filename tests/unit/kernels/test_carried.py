"""A wheel's compiled code is used where it fits, and only read."""

import importlib
import shutil
import sys

import numba
import pytest

from tallyveil.kernels import compiled
from tallyveil.kernels.compiled import BASELINES, Processor, baseline, covered_baselines, this_processor

KERNEL = """
from tallyveil.kernels.compiled import njit

@njit(cache=True)
def kernel(number):
    return number + 1
"""
HOST = this_processor()
V3 = ",".join(f"+{feature}" for feature in BASELINES["x86-64-v3"].split())


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    """Imports a kernel in a new module, as a new process would."""
    (tmp_path / "package").mkdir()
    source = tmp_path / "package" / "carried_kernel.py"
    source.write_text(KERNEL)
    monkeypatch.syspath_prepend(source.parent)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "codes"))
    monkeypatch.setattr(compiled, "CARRIED", tmp_path / "carried")
    # The code of this test is for this machine itself, whose code numba can make in this process.
    monkeypatch.setattr(compiled, "baseline", lambda name: HOST)

    def act():
        sys.modules.pop("carried_kernel", None)
        for remembered in (
            compiled._prepared,
            compiled._say_not_kept,
            compiled._say_not_fitting,
            compiled.sources_digest,
            compiled._source,
        ):
            remembered.cache_clear()
        importlib.invalidate_caches()
        return importlib.import_module("carried_kernel").kernel

    yield act
    sys.modules.pop("carried_kernel", None)


@pytest.fixture
def carried(kernel, tmp_path):
    """Its compiled code as a wheel has it: without the folder that numba names by the place of the source."""
    kernel()(1)
    for path in (tmp_path / "codes").rglob("*.nb[ci]"):
        digest = path.parents[1]
        copy = tmp_path / "carried" / digest.parent.name / digest.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    compiled.seal(tmp_path / "carried")
    shutil.rmtree(tmp_path / "codes")
    return tmp_path / "carried"


def answered(kernel) -> tuple[int, bool]:
    """The kernel's answer, and whether its code came from disk."""
    return kernel(1), bool(kernel.stats.cache_hits)


def contents(folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_carried_code_is_used_and_only_read(kernel, carried, caplog):
    before = contents(carried)
    loaded = kernel()
    assert answered(loaded) == (2, True)
    assert loaded(1.5) == 2.5  # compiled here and kept, but not there
    assert contents(carried) == before
    assert not caplog.messages


def test_carried_code_serves_each_place_of_the_package(kernel, carried, tmp_path, monkeypatch):
    """numba keeps code by the place, so what another environment has does not serve this one."""
    assert answered(kernel()) == (2, True)
    (tmp_path / "package").rename(tmp_path / "moved")
    monkeypatch.syspath_prepend(tmp_path / "moved")
    assert answered(kernel()) == (2, True)
    assert len(list((tmp_path / "codes").rglob("*.nbi"))) == 2


def test_the_rights_of_a_read_only_installation_are_not_copied(kernel, carried, tmp_path):
    for path in [*carried.rglob("*.nb[ci]"), *carried.glob("*/*")]:
        path.chmod(0o555)
    assert answered(kernel()) == (2, True)
    placed = [path for code in (tmp_path / "codes").rglob("*.nbc") for path in (code, code.parent)]
    assert all(path.stat().st_mode & 0o200 for path in placed)


def test_what_was_compiled_once_is_not_spoken_of_again(kernel, carried, monkeypatch, caplog):
    monkeypatch.setattr(compiled, "baseline", lambda name: HOST._replace(name="another"))
    assert answered(kernel()) == (2, False)
    caplog.clear()
    assert answered(kernel()) == (2, True)
    assert not caplog.messages


def test_carried_code_is_used_where_nothing_can_be_kept(kernel, carried, tmp_path, caplog):
    (tmp_path / "codes").write_text("a file, in which no folder can be")
    assert answered(kernel()) == (2, True)
    assert not caplog.messages


@pytest.mark.parametrize("damage", ["changed", "cut", "empty", "unreadable"])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_damaged_code_is_not_used_and_it_is_said(kernel, carried, caplog, ending, damage):
    (path,) = carried.rglob(f"*.{ending}")
    data = path.read_bytes()
    path.unlink()
    if damage == "unreadable":
        path.mkdir()
    else:
        middle = len(data) // 2
        changed = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        path.write_bytes({"changed": changed, "cut": data[:-9], "empty": b""}[damage])
    assert answered(kernel()) == (2, False)
    (said,) = caplog.messages
    assert f"the compiled code in {carried} is damaged, or" in said


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_file_that_is_lacking_is_compiled(kernel, carried, ending):
    (path,) = carried.rglob(f"*.{ending}")
    path.unlink()
    assert answered(kernel()) == (2, False)
    assert answered(kernel()) == (2, True)


@pytest.mark.parametrize("changed", ["sources", "numba", "python", "processor"])
def test_code_for_something_else_is_not_used_and_it_is_said_once(
    kernel, carried, tmp_path, monkeypatch, caplog, changed
):
    if changed == "sources":
        source = tmp_path / "package" / "carried_kernel.py"
        source.write_text(source.read_text() + "\n")
    elif changed == "numba":
        monkeypatch.setattr("llvmlite.__version__", "0.0")
    elif changed == "python":
        monkeypatch.setattr(sys.implementation, "cache_tag", "cpython-27")
    else:
        monkeypatch.setattr(compiled, "baseline", lambda name: HOST._replace(name="another"))
    loaded = kernel()
    assert answered(loaded) == (2, False)
    compiled.njit(cache=True)(loaded.py_func)
    (said,) = caplog.messages
    assert f"the compiled code in {carried} is damaged, or for other sources or another numba" in said


def test_nothing_is_said_of_a_module_of_which_a_wheel_carries_nothing(kernel, carried, caplog):
    (carried / "carried_kernel").rename(carried / "another_module")
    assert answered(kernel()) == (2, False)
    assert not caplog.messages


@pytest.mark.parametrize(
    ("features", "name", "chosen", "covered"),
    [
        (V3, None, None, ["x86-64-v3", "generic"]),
        (f"+sse4a,{V3},+avx512f", None, None, ["x86-64-v3", "generic"]),
        (V3.replace("+fma", "-fma"), None, None, ["generic"]),
        ("", None, None, ["generic"]),
        (V3, "generic", "", ["generic"]),
        (V3, "x86-64-v3", "", ["x86-64-v3"]),
        (V3, "x86-64-v3", "+avx512f", []),
        (V3, "x86-64-v3", None, []),
        (V3, "skylake", None, []),
        (V3, None, "+avx", []),
    ],
)
def test_the_best_code_that_the_machine_covers_is_chosen(monkeypatch, features, name, chosen, covered):
    monkeypatch.setattr(numba.config, "CPU_NAME", name)
    monkeypatch.setattr(numba.config, "CPU_FEATURES", chosen)
    effective = Processor(HOST.system, name or "host", features if chosen is None else chosen)
    monkeypatch.setattr(compiled, "this_processor", lambda: effective)
    assert covered_baselines() == covered


def test_the_processor_is_what_numba_names_in_its_indexes():
    """The one place where numba's inner name is looked up: a new version may give its indexes another form."""
    from numba.core.registry import cpu_target

    assert cpu_target.target_context.codegen().magic_tuple() == this_processor()
    assert baseline("generic").system == this_processor().system
