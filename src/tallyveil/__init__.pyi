"""Tallyveil: hierarchical counts of people, published with differential privacy."""

# The one list of public names, beside those that the rooms at its top list in theirs. Type checkers read it, and
# `__init__.py` loads a name from where it says here, when the name is first used.
from tallyveil import accounting as accounting
from tallyveil import analysis as analysis
from tallyveil import noise as noise
from tallyveil import safetab as safetab
from tallyveil import spine as spine
from tallyveil import subspace as subspace
from tallyveil.api.areas import reliability as reliability
from tallyveil.api.beginning import write_country as write_country
from tallyveil.api.beginning import write_example as write_example
from tallyveil.api.beginning import write_release_file as write_release_file
from tallyveil.api.beginning import write_safetab_country as write_safetab_country
from tallyveil.api.book import RegisterBook as RegisterBook
from tallyveil.api.book import create_book as create_book
from tallyveil.api.book import open_book as open_book
from tallyveil.api.draws import Draws as Draws
from tallyveil.api.draws import combined as combined
from tallyveil.api.draws import make_draws as make_draws
from tallyveil.api.draws import open_draws as open_draws
from tallyveil.api.estimating import estimate as estimate
from tallyveil.api.evaluating import evaluate as evaluate
from tallyveil.api.exchange import copy_release as copy_release
from tallyveil.api.exchange import export_measurements as export_measurements
from tallyveil.api.exchange import import_geography as import_geography
from tallyveil.api.exchange import import_measurements as import_measurements
from tallyveil.api.exchange import publish_csv as publish_csv
from tallyveil.api.exchange import publish_dhc as publish_dhc
from tallyveil.api.exchange import publish_geoparquet as publish_geoparquet
from tallyveil.api.exchange import publish_pl94 as publish_pl94
from tallyveil.api.exchange import publish_tables as publish_tables
from tallyveil.api.exchange import status as status
from tallyveil.api.guarantees import guarantee_of_plan as guarantee_of_plan
from tallyveil.api.guarantees import guarantee_of_product as guarantee_of_product
from tallyveil.api.guarantees import total_guarantee as total_guarantee
from tallyveil.api.making import measure as measure
from tallyveil.api.making import run as run
from tallyveil.api.measured import Measurements as Measurements
from tallyveil.api.opened import Opened as Opened
from tallyveil.api.planned import Plan as Plan
from tallyveil.api.planned import make_workbench as make_workbench
from tallyveil.api.planned import optimise as optimise
from tallyveil.api.planned import plan as plan
from tallyveil.api.programme import plan_programme as plan_programme
from tallyveil.api.programme import run_programme as run_programme
from tallyveil.api.released import Release as Release
from tallyveil.api.released import open as open  # noqa: A004
from tallyveil.api.safetab import calibrate_safetab as calibrate_safetab
from tallyveil.api.safetab import evaluate_safetab as evaluate_safetab
from tallyveil.api.safetab import make_safetab_consistent as make_safetab_consistent
from tallyveil.api.safetab import plan_safetab as plan_safetab
from tallyveil.api.safetab import run_safetab as run_safetab
from tallyveil.api.safetab import run_safetab_households as run_safetab_households
from tallyveil.api.safetab import tabulate_safetab_exactly as tabulate_safetab_exactly
from tallyveil.api.safetab import validate_safetab as validate_safetab
from tallyveil.api.safetab import write_safetab_general_form as write_safetab_general_form
from tallyveil.api.safetab import write_safetab_long_form as write_safetab_long_form
from tallyveil.api.single_table import diagnose_table as diagnose_table
from tallyveil.api.single_table import run_table as run_table
from tallyveil.api.spines import build_spine as build_spine
from tallyveil.api.spines import compare_spines as compare_spines
from tallyveil.api.spines import fit_shares as fit_shares
from tallyveil.api.spines import show_spine as show_spine
from tallyveil.api.spines import spine_distances as spine_distances
from tallyveil.api.verifying import Verdict as Verdict
from tallyveil.api.verifying import verify as verify
from tallyveil.errors import TallyveilError as TallyveilError
from tallyveil.runs.executor import ClusterSettings as ClusterSettings
from tallyveil.runs.timings import Timings as Timings

__all__: list[str]
__version__: str
