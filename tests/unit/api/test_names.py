"""The public names. One that disappears or appears must be meant, and stand in the changelog."""

import subprocess
import sys

import pytest

import tallyveil
from tallyveil import accounting, analysis, noise, safetab, spine, subspace

PUBLIC = [
    "ClusterSettings",
    "Draws",
    "Measurements",
    "Opened",
    "Plan",
    "RegisterBook",
    "Release",
    "TallyveilError",
    "Timings",
    "Verdict",
    "__version__",
    "accounting",
    "analysis",
    "build_spine",
    "calibrate_safetab",
    "combined",
    "compare_spines",
    "copy_release",
    "create_book",
    "diagnose_table",
    "estimate",
    "evaluate",
    "evaluate_safetab",
    "export_measurements",
    "fit_shares",
    "guarantee_of_plan",
    "guarantee_of_product",
    "import_geography",
    "import_measurements",
    "make_draws",
    "make_safetab_consistent",
    "make_workbench",
    "measure",
    "noise",
    "open",
    "open_book",
    "open_draws",
    "optimise",
    "plan",
    "plan_programme",
    "plan_safetab",
    "publish_csv",
    "publish_dhc",
    "publish_geoparquet",
    "publish_pl94",
    "publish_tables",
    "reliability",
    "run",
    "run_programme",
    "run_safetab",
    "run_safetab_households",
    "run_table",
    "safetab",
    "show_spine",
    "spine",
    "spine_distances",
    "status",
    "subspace",
    "tabulate_safetab_exactly",
    "total_guarantee",
    "validate_safetab",
    "verify",
    "write_country",
    "write_example",
    "write_release_file",
    "write_safetab_country",
    "write_safetab_general_form",
    "write_safetab_long_form",
]


def test_the_names_of_the_package():
    assert sorted(tallyveil.__all__) == sorted(PUBLIC)
    assert dir(tallyveil) == sorted(PUBLIC)


@pytest.mark.parametrize("module", [tallyveil, accounting, analysis, noise, safetab, spine, subspace])
def test_every_name_is_there(module):
    assert len(set(module.__all__)) == len(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = module.nothing


def test_the_package_alone_imports_no_room():
    code = "import sys, tallyveil; print([name for name in sys.modules if name.startswith('tallyveil')])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "['tallyveil.public_names', 'tallyveil.version', 'tallyveil']"


def test_to_open_a_release_takes_no_compiler():
    code = "import sys, tallyveil.api.released; print(sys.modules.keys() & {'numba', 'scipy'})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


def test_to_account_for_noise_takes_no_executors():
    code = "import sys, tallyveil.api.guarantees as g; g.guarantee_of_noise({'gaussian': ['5:10']}).epsilon('1e-10'); "
    code += "print(sys.modules.keys() & {'numba', 'scipy', 'polars', 'numpy.ma', 'tallyveil.runs.executor'})"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


def test_no_room_has_the_name_of_a_function():
    """A room would take its place as soon as it is imported."""
    import tallyveil.cli.main
    import tallyveil.plans.release
    import tallyveil.products.topdown.run.run

    assert all(callable(getattr(tallyveil, name)) for name in ("plan", "run", "measure", "estimate", "open"))
