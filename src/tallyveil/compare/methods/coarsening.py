"""Coarsening: tables of fine areas are not published, or fewer levels are told apart."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from tallyveil.compare.inputs import TableName
from tallyveil.compare.methods.method import Method, Office
from tallyveil.compare.published import ExactLaw, Published, PublishedTable, observed_law
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

    def publish(self, office: Office) -> Published:
        """As in `Method`.

        Raises:
            ConfigError: the geolevel or a query is not there.
        """
        shared = office.shared
        names = [areas.name for areas in shared.geolevels]
        if self.down_to not in names:
            raise ConfigError(
                f"the method '{self.name}' names the geolevel '{self.down_to}', wanted one of {', '.join(names)}. "
                "Correct down_to.",
                code="unknown-geolevel",
            )
        queries = [query.name for query in shared.queries]
        if unknown := [name for name in self.below if name not in queries]:
            raise ConfigError(
                f"the method '{self.name}' publishes {', '.join(unknown)} below {self.down_to}, wanted tables of the "
                f"comparison: {', '.join(queries)}. Add them to tables, or correct below.",
                code="no-table",
            )
        finer = names[names.index(self.down_to) + 1 :]
        tables: dict[TableName, PublishedTable] = {}
        for name, true in shared.truth.items():
            # Entities are made of the finest geounits, and are published as areas of their own.
            left_out = name[0] in finer and name[1] not in self.below
            tables[name] = PublishedTable(true, np.ones(true.shape, dtype=np.bool_) if left_out else None)
        # Finer questions are answered nowhere: an office that coarsens does not answer about single geounits.
        return Published(tables, observed_law(shared, tables), None, least_hidden=0)
