"""Families of off-spine entities: areas for which counts are wanted, and which need not be geounits of the spine."""

import hashlib
import json
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tallyveil.arrays import Integers
from tallyveil.errors import GeographyError


@dataclass(frozen=True, slots=True, eq=False)
class EntityFamily:
    """Off-spine entities of one kind, such as all places. Each entity is a set of finest geounits.

    The finest geounits of entity `i` are rows `members[offsets[i]:offsets[i + 1]]` of one spine's finest geolevel, in
    its depth-first numbering. A family belongs to the spine on which it was made; `reordered` converts it to a reshaped
    spine. Entities may overlap, and need not cover the spine. Complements are not stored, because they follow from the
    entities.

    Build one with `entities_from_columns` or `entities_from_pairs`.

    Attributes:
        name: Kind of entity, such as "place".
        codes: Name of each entity, sorted, each once.
        offsets: Start of each entity's members; read-only, shape (n_entities + 1,).
        members: Rows of finest geounits, increasing within each entity; read-only.
        n_finest: Number of finest geounits of the spine.

    Raises:
        GeographyError: names are repeated or not sorted, an entity has no members, or members do not increase or lie
            outside the spine.
    """

    name: str
    codes: tuple[str, ...]
    offsets: Integers
    members: Integers
    n_finest: int

    def __post_init__(self) -> None:
        # Strictly rising: the same comparison finds names that are repeated and names out of order.
        if any(first >= second for first, second in zip(self.codes, self.codes[1:], strict=False)):
            raise _unsound(self.name, "names that are sorted, each once")
        offsets, members = self.offsets, self.members
        if offsets.dtype != np.int64 or members.dtype != np.int64:
            raise _unsound(self.name, "int64 offsets and members")
        if offsets.shape != (len(self.codes) + 1,) or offsets[0] != 0 or offsets[-1] != len(members):
            raise _unsound(self.name, f"{len(self.codes) + 1} offsets from 0 to {len(members)}")
        if not bool(np.all(offsets[1:] > offsets[:-1])):
            raise _unsound(self.name, "at least one member in every entity")
        if len(members) and (int(members.min()) < 0 or int(members.max()) >= self.n_finest):
            raise _unsound(self.name, f"members from 0 to {self.n_finest - 1}")
        if not _rises_within(offsets, members):
            raise _unsound(self.name, "members that rise within each entity")
        # Views, so that arrays of the caller stay writable.
        for name in ("offsets", "members"):
            view = getattr(self, name).view()
            view.flags.writeable = False
            object.__setattr__(self, name, view)

    @property
    def n_entities(self) -> int:
        """Number of entities."""
        return len(self.codes)

    @property
    def sizes(self) -> Integers:
        """Number of finest geounits of each entity; shape (n_entities,)."""
        return np.diff(self.offsets)

    @property
    def is_disjoint(self) -> bool:
        """Whether no finest geounit is in two entities."""
        # A finest geounit in two entities occurs twice among the members.
        return bool(np.bincount(self.members, minlength=1).max() <= 1)

    def index(self, code: str) -> int:
        """Position of the entity with a given name.

        Raises:
            GeographyError: there is no such entity.
        """
        # The names are sorted, so that a binary search finds one in a family of tens of thousands.
        place = bisect_left(self.codes, code)
        if place == self.n_entities or self.codes[place] != code:
            shown = ", ".join(self.codes[:5]) + (", ..." if self.n_entities > 5 else "")
            raise GeographyError(
                f"there is no entity '{code}' in family {self.name}; it has {shown or 'none'}. Use one of its names.",
                code="unknown-entity",
            )
        return place

    def members_of(self, entity: int) -> Integers:
        """Integers of an entity's finest geounits, increasing."""
        return self.members[self.offsets[entity] : self.offsets[entity + 1]]

    def digest(self) -> bytes:
        """SHA-256 of the family: its name, its entities and their members."""
        header = json.dumps([self.name, list(self.codes), self.n_finest], separators=(",", ":"))
        # The number in this line is the version of the digest.
        digest = hashlib.sha256(b"tallyveil entities 1\n" + header.encode("ascii") + b"\n")
        for array in (self.offsets, self.members):
            digest.update(array.astype("<i8", copy=False).tobytes())
        return digest.digest()

    def inside(self, codes: Sequence[str] | None = None) -> NDArray[np.bool_]:
        """Whether each finest geounit is in one of the named entities, or by default in any entity; shape (n_finest,).

        Raises:
            GeographyError: an entity does not exist.
        """
        mask = np.zeros(self.n_finest, dtype=np.bool_)
        if codes is None:
            mask[self.members] = True
        else:
            for code in codes:
                mask[self.members_of(self.index(code))] = True
        return mask

    def with_remainder(self, code: str | None = None) -> "EntityFamily":
        """The family with one more entity: everything that is in none of its entities.

        If the entities cover the spine, the result is the family itself.

        Args:
            code: Name of the new entity; by default "outside <family>".

        Raises:
            GeographyError: an entity already has that name.
        Source: Cumings-Menon et al. 2023, section 6, which adds this entity to every family.
        """
        name = f"outside {self.name}" if code is None else code
        place = bisect_left(self.codes, name)
        if self.codes[place : place + 1] == (name,):
            raise GeographyError(
                f"family {self.name} has an entity '{name}' already. Give the remainder another name.",
                code="entity-table",
            )
        rest = np.flatnonzero(~self.inside()).astype(np.int64, copy=False)
        if len(rest) == 0:
            return self
        # The remainder is put at its place among the sorted names, and offsets after it move up by its size.
        start = int(self.offsets[place])
        return EntityFamily(
            self.name,
            (*self.codes[:place], name, *self.codes[place:]),
            np.concatenate([self.offsets[: place + 1], self.offsets[place:] + len(rest)]),
            np.concatenate([self.members[:start], rest, self.members[start:]]),
            self.n_finest,
        )

    def reordered(self, rows: Integers) -> "EntityFamily":
        """The same entities on a spine whose finest geounits are in another order.

        Args:
            rows: For each finest geounit of the other spine, its present row; shape (n_finest,).

        Raises:
            GeographyError: the rows do not contain each present row exactly once.
        """
        # The inverse of `rows`: where each present row goes. A row that no entry names keeps -1 and is refused.
        place = np.full(self.n_finest, -1, dtype=np.int64)
        if len(rows) == self.n_finest:
            place[rows] = np.arange(self.n_finest, dtype=np.int64)
        if bool(np.any(place < 0)):
            raise _unsound(self.name, f"each of {self.n_finest} rows once, to be put in another order")
        entity = np.repeat(np.arange(self.n_entities, dtype=np.int64), self.sizes)
        # The keys of an entity are contiguous when sorted, so one sort orders the members of every entity.
        keys = np.sort(entity * self.n_finest + place[self.members])
        return EntityFamily(self.name, self.codes, self.offsets, keys - entity * self.n_finest, self.n_finest)

    def __repr__(self) -> str:
        return f"EntityFamily({self.name}: {self.n_entities} entities over {self.n_finest} finest geounits)"


def _rises_within(offsets: Integers, members: Integers) -> bool:
    rises = members[1:] > members[:-1]
    rises[offsets[1:-1] - 1] = True  # between two entities, members may decrease
    return bool(rises.all())


def _unsound(name: str, wanted: str) -> GeographyError:
    return GeographyError(
        f"the arrays of entity family {name} do not fit together; wanted {wanted}. "
        "Build it with entities_from_columns or entities_from_pairs.",
        code="entity-table",
    )
