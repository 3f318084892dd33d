"""A small input of a comparison, without files: towns of blocks whose people are of two ages and four groups."""

import numpy as np

from tallyveil.compare.attacks.attack import Targets
from tallyveil.compare.draws import Draws
from tallyveil.compare.inputs import Areas, PublicInput, SharedInput
from tallyveil.compare.methods.method import Office
from tallyveil.geography.build import spine_from_columns
from tallyveil.schema.attribute import Attribute
from tallyveil.schema.schema import Schema

GROUPS = ("north", "south", "east", "west")
SCHEMA = Schema("people", (Attribute("age", ("young", "old")), Attribute("group", GROUPS)))


def small_input(n_blocks=240, seed=1, queries=("total", "group", "age*group"), people=8.0):
    """Three geolevels and a family of entities that cuts across towns. Most people are of the first group."""
    generator = np.random.default_rng(seed)
    blocks = np.arange(n_blocks)
    towns = blocks // 12
    mix = generator.dirichlet([6.0, 1.0, 0.4, 0.2], size=towns.max() + 1)[towns]
    means = (
        people
        * generator.gamma(0.6, size=(n_blocks, 1, 1))
        * np.array([0.3, 0.7])[None, :, None]
        * mix[:, None, :]
    )
    counts = generator.poisson(means).reshape(n_blocks, -1).astype(np.int64)
    areas = (
        Areas("Region", ("R",), np.zeros(n_blocks, dtype=np.int64)),
        Areas("Town", tuple(f"T{town:02d}" for town in range(towns.max() + 1)), towns),
        Areas("Block", tuple(f"B{block:04d}" for block in blocks), blocks),
        Areas("School", ("even", "odd"), np.where(blocks % 7 == 0, -1, blocks % 2)),
    )
    return SharedInput(SCHEMA, tuple(SCHEMA.query(name) for name in queries), areas, 3, counts)


def targets_of(shared, people=2000):
    """Attackers who want to know the group."""
    return Targets(shared, Draws("attackers"), "group", people)


def public_of(shared, plan=None):
    """What is known of the input before its records are read."""
    columns = {areas.name: [areas.codes[place] for place in areas.place] for areas in shared.geolevels}
    return PublicInput(
        plan, spine_from_columns(columns, tuple(columns)), shared.areas, shared.queries, "group"
    )


def publications(method, targets, draw=0):
    """What a method publishes of the input, and of the input with coins."""
    draws = Draws(f"methods {draw}")
    return (
        method.publish(Office(targets.shared, None, "group", draws.again(0), draws.again(0), None)),
        method.publish(Office(targets.tossed, None, "group", draws.again(1), draws.again(1), None)),
    )


def found(attack, method, targets):
    """The findings of an attack on one draw of a method, by measure."""
    return {item.measure: item for item in attack.run(targets, *publications(method, targets))}
