"""Coarsening: tables of fine areas are not published, or fewer levels are told apart."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from tallyveil.compare.inputs import PublicInput, TableName
from tallyveil.compare.methods.method import CERTAIN, Method, Office
from tallyveil.compare.published import ExactLaw, Limits, Published, PublishedTable, observed_law
from tallyveil.declared import Name
from tallyveil.errors import ConfigError


class Coarsening(Method):
    """Coarsening: exact tables down to a geolevel, and below it only some queries.

    Fewer categories and top codes are queries of the release file, by its recodes: give these as `below`.
    """

    family: ClassVar[str] = "coarsening"
    literature: ClassVar[str] = "Willenborg and de Waal 2001 (global recoding); Hundepool et al. 2012"
    cannot: ClassVar[str] = (
        "What is published is exact, so whoever knows all others of an area knows the last one. It says nothing of "
        "what may be published next."
    )
    strength: ClassVar[str] = (
        "What is published is exact and adds up, and everybody understands what is missing."
    )
    unbounded: ClassVar[str] = CERTAIN
    random: ClassVar[bool] = False
    shows_exact: ClassVar[bool] = True

    kind: Literal["coarsening"] = "coarsening"
    down_to: Name = Field(description="The finest geolevel whose tables are all published.")
    below: list[Name] = Field(
        default_factory=list, description="Queries that are published at finer geolevels, too."
    )

    def stated_law(self) -> ExactLaw:
        """As in `Method`."""
        return ExactLaw()

    def require_fit(self, public: PublicInput) -> None:
        """Refuse a geolevel or a query that is not there; raises ConfigError."""
        self.require_geolevel(public, self.down_to)
        queries = [query.name for query in public.queries]
        if unknown := [name for name in self.below if name not in queries]:
            raise ConfigError(
                f"the method '{self.name}' publishes {', '.join(unknown)} below {self.down_to}, wanted tables of the "
                f"comparison: {', '.join(queries)}. Add them to tables, or correct below. Nothing was read.",
                code="no-table",
            )

    def publish(self, office: Office) -> Published:
        """As in `Method`."""
        shared = office.shared
        names = [areas.name for areas in shared.geolevels]
        finer = names[names.index(self.down_to) + 1 :]
        tables: dict[TableName, PublishedTable] = {}
        for name, true in shared.truth.items():
            # Entities are made of the finest geounits, and are published as areas of their own.
            left_out = name[0] in finer and name[1] not in self.below
            tables[name] = PublishedTable(true, np.ones(true.shape, dtype=np.bool_) if left_out else None)
        # Finer questions are answered nowhere: an office that coarsens does not answer about single geounits.
        limits = Limits(shared, tables, self.stated_law())
        return Published(tables, observed_law(shared, tables), None, limits=limits)
