"""How the queries of a release are called on its pages: in words, not by the names of variables."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tallyveil.report.wording import name_title
from tallyveil.schema.presets import titles_of
from tallyveil.schema.schema import Schema, Unit


@dataclass(frozen=True, slots=True)
class Titles:
    """Titles of queries, all different.

    Attributes:
        unit: What a record stands for.
        factors: Titles of attributes and recodes by name.
    """

    unit: Unit
    factors: Mapping[str, str]

    def factor(self, name: str) -> str:
        """The title of an attribute or a recode."""
        return self.factors.get(name, name_title(name))

    def query(self, query: str) -> str:
        """The title of a query: `total` becomes "all people", and `age*cenrace` becomes "age × race"."""
        if query == "total":
            return f"all {self.unit.many}"
        if query == "detailed":
            return "every combination"
        return " × ".join(self.factor(name.strip()) for name in query.split("*"))

    def counts_of(self, query: str) -> str:
        """What the counts of a query are, in a sentence: "the number of people", or "the counts by age × race"."""
        if query == "total":
            return f"the number of {self.unit.many}"
        return f"the count of one answer to “{self.query(query)}”"


def schema_titles(schema: Schema) -> Titles:
    """The titles of a schema. Where two would be the same, both are the names themselves."""
    known = titles_of(schema)
    titles = {name: known.get(name, name_title(name)) for name in schema.factor_names}
    # Two factors with one title could not be told apart, so both keep their names.
    often = Counter(titles.values())
    return Titles(schema.unit, {name: title if often[title] == 1 else name for name, title in titles.items()})
