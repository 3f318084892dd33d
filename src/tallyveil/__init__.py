"""Tallyveil: hierarchical counts of people, published with differential privacy.

`__all__` lists what is public, beside the names that `tallyveil.accounting`, `tallyveil.noise`, `tallyveil.products.safetab.public`,
`tallyveil.subspace` and `tallyveil.spine` list in theirs. docs/python.md says how these names may change.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallyveil.version import VERSION

if TYPE_CHECKING:
    from tallyveil import accounting, noise, spine, subspace
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
    from tallyveil.api.first_file import write_release_file
    from tallyveil.api.guarantees import guarantee_of_plan, guarantee_of_product, total_guarantee
    from tallyveil.api.made_up import write_country, write_example, write_safetab_country
    from tallyveil.api.making import measure, run
    from tallyveil.api.opened import Measurements, Opened
    from tallyveil.api.planned import Plan, make_workbench, optimise, plan
    from tallyveil.api.programme import plan_programme, run_programme
    from tallyveil.api.released import Release
    from tallyveil.api.released import open_folder as open  # noqa: A004 - read as `tallyveil.open`
    from tallyveil.api.reliability import reliability
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
    from tallyveil.runs.cluster.site import ClusterSettings


__version__ = VERSION

_PLACES = {
    "ClusterSettings": ("runs.cluster.site", "ClusterSettings"),
    "Measurements": ("face.opened", "Measurements"),
    "Opened": ("face.opened", "Opened"),
    "Plan": ("face.planned", "Plan"),
    "Release": ("face.released", "Release"),
    "TallyveilError": ("errors", "TallyveilError"),
    "build_spine": ("face.spines", "build_spine"),
    "calibrate_safetab": ("face.safetab", "calibrate_safetab"),
    "compare_spines": ("face.spines", "compare_spines"),
    "copy_release": ("face.exchange", "copy_release"),
    "diagnose_table": ("face.single_table", "diagnose_table"),
    "estimate": ("face.estimating", "estimate"),
    "evaluate": ("face.evaluating", "evaluate"),
    "evaluate_safetab": ("face.safetab", "evaluate_safetab"),
    "export_measurements": ("face.exchange", "export_measurements"),
    "fit_shares": ("face.spines", "fit_shares"),
    "guarantee_of_plan": ("face.guarantees", "guarantee_of_plan"),
    "guarantee_of_product": ("face.guarantees", "guarantee_of_product"),
    "import_geography": ("face.exchange", "import_geography"),
    "import_measurements": ("face.exchange", "import_measurements"),
    "make_safetab_consistent": ("face.safetab", "make_safetab_consistent"),
    "make_workbench": ("face.planned", "make_workbench"),
    "measure": ("face.making", "measure"),
    "open": ("face.released", "open_folder"),
    "optimise": ("face.planned", "optimise"),
    "plan": ("face.planned", "plan"),
    "plan_programme": ("face.programme", "plan_programme"),
    "plan_safetab": ("face.safetab", "plan_safetab"),
    "publish_csv": ("face.exchange", "publish_csv"),
    "publish_dhc": ("face.exchange", "publish_dhc"),
    "publish_geoparquet": ("face.exchange", "publish_geoparquet"),
    "publish_pl94": ("face.exchange", "publish_pl94"),
    "reliability": ("face.reliability", "reliability"),
    "run": ("face.making", "run"),
    "run_programme": ("face.programme", "run_programme"),
    "run_safetab": ("face.safetab", "run_safetab"),
    "run_safetab_households": ("face.safetab", "run_safetab_households"),
    "run_table": ("face.single_table", "run_table"),
    "show_spine": ("face.spines", "show_spine"),
    "spine_distances": ("face.spines", "spine_distances"),
    "status": ("face.exchange", "status"),
    "tabulate_safetab_exactly": ("face.safetab", "tabulate_safetab_exactly"),
    "total_guarantee": ("face.guarantees", "total_guarantee"),
    "validate_safetab": ("face.safetab", "validate_safetab"),
    "write_country": ("face.made_up", "write_country"),
    "write_example": ("face.made_up", "write_example"),
    "write_release_file": ("face.first_file", "write_release_file"),
    "write_safetab_country": ("face.made_up", "write_safetab_country"),
    "write_safetab_general_form": ("face.safetab", "write_safetab_general_form"),
    "write_safetab_long_form": ("face.safetab", "write_safetab_long_form"),
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
