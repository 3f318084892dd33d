"""The words of the layout: names of tables, geolevels, queries and constraints."""

from collections.abc import Mapping
from typing import Final

from tallyveil.schema.query_group import QueryGroup
from tallyveil.schema.schema import Schema

GEOLEVELS: Final = ("US", "State", "County", "Tract", "Block_Group", "Block")
"""Geolevels of the redistricting data, root first."""
ANSWERS: Final = "DPQuery"
CONSTRAINTS: Final = "Constraint"
TOTAL: Final = "total_con"
TOTALS_FILE: Final = "state_totals.csv"
"""Exact totals of States, which the tables of the layout leave out."""
STRUCTURAL_ZEROS: Final = {
    "minors_in_nursing": ("nurse_nva_0_con", {"hhgq": "gqNursingTotal", "votingage": "nonvoting"}),
}
"""By structural zero of a schema: the name of its constraint, and what the columns of attributes hold in its rows."""
_DETAILED = "detailed"
_SUMMED = "*"
_SUFFIX = "_dpq"
_JOINT = " * "


def table_folder(geolevel: str, table: str) -> tuple[str, str]:
    """Folder of a table, as two names."""
    return f"{geolevel}.parquet", table


def answer_name(query: str) -> str:
    """The `query_name` of a query's noisy answers."""
    return _JOINT.join(query.split("*")) + _SUFFIX


def lower_name(query: str) -> str:
    """The `query_name` of lower bounds on a query's answers."""
    return f"{query}_total_lb_con"


def upper_name(query: str) -> str:
    """The `query_name` of upper bounds on a query's answers."""
    return f"{query}_total_ub_con"


def attribute_words(group: QueryGroup) -> dict[str, str]:
    """What the columns of attributes hold in the rows of a query: the factor, or "*" where all levels are summed."""
    if group.name == _DETAILED:
        return {factor.attribute: _DETAILED for factor in group.factors}
    return {factor.attribute: factor.name or _SUMMED for factor in group.factors}


def zero_words(schema: Schema, named: Mapping[str, str]) -> dict[str, str]:
    """What the columns of attributes hold in the rows of a structural zero."""
    return {name: named.get(name, _SUMMED) for name in schema.attribute_names}
