"""Tallyveil: hierarchical counts of people, published with differential privacy.

`__all__` lists what is public, beside the names that `tallyveil.accounting`, `tallyveil.noise`,
`tallyveil.safetab`, `tallyveil.subspace` and `tallyveil.spine` list in theirs. docs/python.md says
how these names may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallyveil.version import VERSION

if TYPE_CHECKING:
    from tallyveil import accounting, noise, spine, subspace
    from tallyveil.api.areas import reliability
    from tallyveil.api.beginning import (
        write_country,
        write_example,
        write_release_file,
        write_safetab_country,
    )
    from tallyveil.api.estimating import estimate
    from tallyveil.api.evaluating import evaluate
    from tallyveil.api.exchange import (
        copy_release,
        export_measurements,
        import_geography,
        import_measurements,
        publish_csv,
        publish_dhc,
        publish_geoparquet,
        publish_pl94,
        status,
    )
    from tallyveil.api.guarantees import guarantee_of_plan, guarantee_of_product, total_guarantee
    from tallyveil.api.making import measure, run
    from tallyveil.api.opened import Measurements, Opened
    from tallyveil.api.planned import Plan, make_workbench, optimise, plan
    from tallyveil.api.programme import plan_programme, run_programme
    from tallyveil.api.released import Release
    from tallyveil.api.released import open_folder as open  # noqa: A004 - read as `tallyveil.open`
    from tallyveil.api.safetab import (
        calibrate_safetab,
        evaluate_safetab,
        make_safetab_consistent,
        plan_safetab,
        run_safetab,
        run_safetab_households,
        tabulate_safetab_exactly,
        validate_safetab,
        write_safetab_general_form,
        write_safetab_long_form,
    )
    from tallyveil.api.single_table import diagnose_table, run_table
    from tallyveil.api.spines import (
        build_spine,
        compare_spines,
        fit_shares,
        show_spine,
        spine_distances,
    )
    from tallyveil.errors import TallyveilError
    from tallyveil.products.safetab import public as safetab
    from tallyveil.runs.executor import ClusterSettings


__version__ = VERSION

_PLACES = {
    "ClusterSettings": ("runs.executor", "ClusterSettings"),
    "Measurements": ("api.opened", "Measurements"),
    "Opened": ("api.opened", "Opened"),
    "Plan": ("api.planned", "Plan"),
    "Release": ("api.released", "Release"),
    "TallyveilError": ("errors", "TallyveilError"),
    "build_spine": ("api.spines", "build_spine"),
    "calibrate_safetab": ("api.safetab", "calibrate_safetab"),
    "compare_spines": ("api.spines", "compare_spines"),
    "copy_release": ("api.exchange", "copy_release"),
    "diagnose_table": ("api.single_table", "diagnose_table"),
    "estimate": ("api.estimating", "estimate"),
    "evaluate": ("api.evaluating", "evaluate"),
    "evaluate_safetab": ("api.safetab", "evaluate_safetab"),
    "export_measurements": ("api.exchange", "export_measurements"),
    "fit_shares": ("api.spines", "fit_shares"),
    "guarantee_of_plan": ("api.guarantees", "guarantee_of_plan"),
    "guarantee_of_product": ("api.guarantees", "guarantee_of_product"),
    "import_geography": ("api.exchange", "import_geography"),
    "import_measurements": ("api.exchange", "import_measurements"),
    "make_safetab_consistent": ("api.safetab", "make_safetab_consistent"),
    "make_workbench": ("api.planned", "make_workbench"),
    "measure": ("api.making", "measure"),
    "open": ("api.released", "open_folder"),
    "optimise": ("api.planned", "optimise"),
    "plan": ("api.planned", "plan"),
    "plan_programme": ("api.programme", "plan_programme"),
    "plan_safetab": ("api.safetab", "plan_safetab"),
    "publish_csv": ("api.exchange", "publish_csv"),
    "publish_dhc": ("api.exchange", "publish_dhc"),
    "publish_geoparquet": ("api.exchange", "publish_geoparquet"),
    "publish_pl94": ("api.exchange", "publish_pl94"),
    "reliability": ("api.areas", "reliability"),
    "run": ("api.making", "run"),
    "run_programme": ("api.programme", "run_programme"),
    "run_safetab": ("api.safetab", "run_safetab"),
    "run_safetab_households": ("api.safetab", "run_safetab_households"),
    "run_table": ("api.single_table", "run_table"),
    "show_spine": ("api.spines", "show_spine"),
    "spine_distances": ("api.spines", "spine_distances"),
    "status": ("api.exchange", "status"),
    "tabulate_safetab_exactly": ("api.safetab", "tabulate_safetab_exactly"),
    "total_guarantee": ("api.guarantees", "total_guarantee"),
    "validate_safetab": ("api.safetab", "validate_safetab"),
    "write_country": ("api.beginning", "write_country"),
    "write_example": ("api.beginning", "write_example"),
    "write_release_file": ("api.beginning", "write_release_file"),
    "write_safetab_country": ("api.beginning", "write_safetab_country"),
    "write_safetab_general_form": ("api.safetab", "write_safetab_general_form"),
    "write_safetab_long_form": ("api.safetab", "write_safetab_long_form"),
}
_ROOMS = ("accounting", "noise", "safetab", "spine", "subspace")

__all__ = [
    "ClusterSettings",
    "Measurements",
    "Opened",
    "Plan",
    "Release",
    "TallyveilError",
    "__version__",
    "accounting",
    "build_spine",
    "calibrate_safetab",
    "compare_spines",
    "copy_release",
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
    "make_safetab_consistent",
    "make_workbench",
    "measure",
    "noise",
    "open",
    "optimise",
    "plan",
    "plan_programme",
    "plan_safetab",
    "publish_csv",
    "publish_dhc",
    "publish_geoparquet",
    "publish_pl94",
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
    "write_country",
    "write_example",
    "write_release_file",
    "write_safetab_country",
    "write_safetab_general_form",
    "write_safetab_long_form",
]

# Type checkers read the imports above; a name that is not listed stays a mistake for them.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Nothing is imported before it is used, so that `import tallyveil` and the command line start at once.
        if name in _ROOMS:
            return import_module(f"{__name__}.{name}")
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from tallyveil.primitives import require_hashes

        require_hashes()
        module, there = _PLACES[name]
        return getattr(import_module(f"{__name__}.{module}"), there)


def __dir__() -> list[str]:
    return __all__
