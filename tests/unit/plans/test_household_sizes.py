"""Passes that find households by size: what fits, and what is refused when the file is read."""

from pathlib import Path

import pytest
from tests.size_worlds import HOUSEHOLDS

from tallyveil.errors import TallyveilError
from tallyveil.plans.from_toml.load import load_plan
from tallyveil.plans.lifts import SEVERAL, SizesOfGroups

NO_THREE = """
[[schema.structural_zeros]]
name = "men do not head three"
cells = { size = ["three"], head = ["male"] }

[privacy]
"""
LAST = 'cells = "detailed"\npart = "middle"\nsizes = "persons"\n'


def plan_of(folder: Path, old: str = "", new: str = ""):
    path = folder / "households.toml"
    assert old in HOUSEHOLDS
    path.write_text(HOUSEHOLDS.replace(old, new, 1) if old else HOUSEHOLDS)
    return load_plan(path)


def test_passes_and_residents_are_stated_in_the_plan(tmp_path):
    plan = plan_of(tmp_path).to_mapping()
    assert [one.get("sizes") for one in plan["outer"]] == [None, "persons", "persons"]
    assert plan["residents"] == [
        {
            "name": "persons",
            "people": {"relation": ["alone", "head", "partner", "other"]},
            "households": "sizes",
            "geolevel": "Block",
        }
    ]


def test_sizes_of_groups(tmp_path):
    schema = plan_of(tmp_path).schema
    sizes, cells = schema.query("sizes"), schema.query("large_or_not*head")
    # Men and women alone, men and women with others.
    found = SizesOfGroups.of(schema, sizes, cells, [schema.query("living*sex")])
    assert found.size.tolist() == [1, 1, SEVERAL, SEVERAL]
    assert (found.smallest, found.largest) == (2, 4)
    own = SizesOfGroups.of(schema, sizes, cells, [cells])
    assert (own.smallest, own.largest) == (2, 3)
    assert own.size.tolist() == [1, 1, 0, SEVERAL, SEVERAL, 0, 4, 4, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('sizes = "persons"\n', 'sizes = "homes"\n', "names the residents 'homes'.*there are: 'persons'"),
        ('cells = "large_or_not*head"\n', 'cells = "detailed"\n', "at most one of the part"),
        (
            'households = "sizes"\n',
            "",
            "finds households of a size for the residents 'persons'. Their table must",
        ),
        ('geolevel = "Block"\n', "", "the geolevel at which sizes add up"),
        ("[residents.people]\n", 'adults = { age = ["3"] }\n[residents.people]\n', "must not have 'adults'"),
        (
            'households = "sizes"\n',
            'households = "status"\n',
            "the part of this pass must be those of size 2",
        ),
        ('{ three = ["three"] }', '{ three = ["two"] }', "the part of this pass must be those of size 3"),
        (
            'cells = "alone_or_not*head"\n',
            'cells = "large_or_not*head"\n',
            "no larger size than the smallest may",
        ),
        (LAST, 'cells = "detailed"\n', "leaves households of 2 to 3 people together"),
        ("\n[privacy]\n", NO_THREE, "every kind must be able to have the same sizes"),
        (LAST, LAST + "rounding = []\nat_most = 'middle'\n", "one of 'company', 'at_most' and 'sizes'"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, old, new, told):
    with pytest.raises(TallyveilError, match=told) as caught:
        plan_of(tmp_path, old, new)
    assert caught.value.code == "outer-pass"


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ('geolevel = "Block"\n', 'geolevel = "County"\n', "unknown-geolevel"),
        ('households = "sizes"\n', 'households = "persons"\n', "schema"),
    ],
)
def test_residents_name_what_there_is(tmp_path, old, new, code):
    with pytest.raises(TallyveilError, match="residents 'persons'") as caught:
        plan_of(tmp_path, old, new)
    assert caught.value.code == code
