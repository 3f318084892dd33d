"""The tables [[estimation.outer]] and [[agreement]] of a release file."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Final

from tallyveil.budget.outer_pass import OuterPass
from tallyveil.budget.presets import StrategyPreset
from tallyveil.budget.strategy import Strategy
from tallyveil.errors import ConfigError
from tallyveil.plans.constraints import Agreement, Residents, levels_of
from tallyveil.plans.estimating import GeolevelEstimation, MeasurementFiles
from tallyveil.plans.from_toml.lookups import known_query, partition_query
from tallyveil.plans.from_toml.models import AgreementTable, EstimationTable
from tallyveil.plans.from_toml.outer_tables import ResidentsTable
from tallyveil.plans.from_toml.spine import whole_geolevel
from tallyveil.plans.lifts import refuse_lifts
from tallyveil.plans.outer import measured_by_pass, refuse_outer
from tallyveil.schema.schema import Schema
from tallyveil.storage.addresses import located

MOST_ANSWERS_IN_FULL: Final = 1 << 17
"""Largest number of measured answers of a geounit that a release with outer passes writes in full."""


def outer_of(
    table: EstimationTable,
    schema: Schema,
    preset: StrategyPreset | None,
    agreement: Sequence[Agreement] = (),
    residents: Sequence[Residents] = (),
    *,
    drawn: bool,
) -> tuple[OuterPass, ...]:
    """The outer passes that a file states, else those of the preset; checked.

    Args:
        table: What the file says.
        schema: The universe.
        preset: The strategy's preset, if it has one.
        agreement: The agreements that the file states.
        residents: The residents that it states.
        drawn: Whether counts are drawn on a lattice.
    Raises:
        ConfigError: the passes do not fit the schema or each other, the file also states passes of geolevels, or counts
            are drawn on a lattice.
        SchemaError: a query is unknown.
    """
    own = tuple(one.as_pass() for one in table.outer)
    outer = own or (preset.outer if preset else ())
    if not outer:
        if residents:
            raise ConfigError(
                f"[[residents]] '{residents[0].name}' has no effect without [[estimation.outer]]. Add a pass with a "
                "part and these residents, or leave the table out.",
                code="outer-pass",
            )
        return ()
    _refuse_other_settings(table, preset if not own else None)
    if drawn:
        raise ConfigError(
            "[[subspace]]: outer passes keep invariants, agreements and bounds, and no counts that are drawn on a "
            "lattice after the spend. Leave [[subspace]] out, or estimate without outer passes.",
            code="outer-pass",
        )
    for number, one in enumerate(outer, start=1):
        for name in one.queries:
            known_query(schema, name, f"estimation.outer[{number}]")
    refuse_outer(schema, outer)
    refuse_lifts(schema, outer, agreement, residents)
    return outer


def estimation_in_passes(
    outer: Sequence[OuterPass], strategy: Strategy, schema: Schema
) -> tuple[tuple[str, GeolevelEstimation], ...]:
    """How each geolevel is estimated by outer passes: the queries of each pass that has some, and all chains.

    Raises:
        ConfigError: no pass determines one of the measured queries.
    """
    rounding = tuple((*one.rounding, one.cells) for one in outer)
    return tuple(
        (
            name,
            GeolevelEstimation(
                passes=tuple(own for own in measured_by_pass(schema, outer, strategy.queries(name)) if own),
                slack=Fraction(0),
                rounding=rounding,
            ),
        )
        for name in strategy.geolevels
    )


def refuse_full_measurements(strategy: Strategy, schema: Schema, measurements: MeasurementFiles) -> None:
    """Refuse to write all noisy answers of a release with outer passes whose queries have very many.

    Raises:
        ConfigError: a geounit has more measured answers than `MOST_ANSWERS_IN_FULL`.
    """
    if measurements != "full":
        return
    for geolevel in strategy.geolevels:
        answers = sum(schema.query(name).size for name in strategy.queries(geolevel))
        if answers > MOST_ANSWERS_IN_FULL:
            raise ConfigError(
                f'[outputs] measurements is "full", and each {geolevel} has {answers:,} measured answers. All of them '
                "would be drawn and written for every geounit, although nearly all are noise around zero. At most "
                f'{MOST_ANSWERS_IN_FULL:,} answers are written in full. Write measurements = "small" for all answers '
                'of the small queries, "support" for the answers in which the parent\'s published counts lie, or '
                '"none".',
                code="many-answers",
            )


def agreements_of(items: Sequence[AgreementTable], schema: Schema, folder: Path) -> tuple[Agreement, ...]:
    """The agreements with finished releases.

    Raises:
        ConfigError: two have the same name, or groups of a query overlap.
        SchemaError: the schema has no such query.
    """
    names = [item.name for item in items]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"[[agreement]] '{twice}' is there more than once. Give each agreement a name of its own. If two are "
            "with the same release of a programme, name that release by 'release'."
        )
    return tuple(_agreement(item, schema, folder) for item in items)


def _agreement(item: AgreementTable, schema: Schema, folder: Path) -> Agreement:
    where = f"agreement '{item.name}'"
    return Agreement(
        name=item.name,
        path=None if item.path is None else located(folder, item.path),
        query=partition_query(schema, item.query, where),
        theirs=item.theirs,
        release=item.release,
    )


def residents_of(
    item: ResidentsTable, schema: Schema, original: Sequence[str], geolevels: Sequence[str], folder: Path
) -> Residents:
    """The residents of a release file.

    Args:
        item: Their table.
        schema: The universe.
        original: Geolevels of the geography.
        geolevels: Geolevels of the spine.
        folder: Folder of the release file.
    Raises:
        ConfigError: there is no such geolevel, or groups of the query of households overlap.
        SchemaError: there is no such query.
    """
    where = f"residents '{item.name}'"
    if item.households is not None:
        partition_query(schema, item.households, where)
    if item.geolevel is not None:
        whole_geolevel(item.geolevel, original, geolevels, where)
    return Residents(
        name=item.name,
        path=None if item.path is None else located(folder, item.path),
        people=levels_of(item.people),
        adults=levels_of(item.adults),
        households=item.households,
        geolevel=item.geolevel,
    )


def _refuse_other_settings(table: EstimationTable, preset: StrategyPreset | None) -> None:
    """Refuse settings of single geolevels beside outer passes, which would have no effect."""
    given = [
        name
        for name, is_given in (
            ("passes", bool(table.passes)),
            ("rounding", bool(table.rounding)),
            ("slack", bool(table.slack)),
            ("rounding_target", table.rounding_target == "nearest"),
            ("values", table.values == "tree"),
        )
        if is_given
    ]
    if given:
        source = (
            "[[estimation.outer]]"
            if preset is None
            else f"the outer passes of strategy preset '{preset.name}'"
        )
        raise ConfigError(
            f"[estimation] {', '.join(given)}: with {source}, the passes go over the whole spine, are fitted to each "
            "geounit's own noisy answers and round towards the estimates, so that this would have no effect. Leave it "
            "out.",
            code="outer-pass",
        )
