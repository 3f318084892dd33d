"""Plans and manifests that earlier versions wrote keep their text, their digests and their refusals.

`stored/plans.json` holds plans of the main job in every form that a run can write, each with its digest.
`stored/manifests.json` holds a manifest of every kind of release, in format 3. `stored/verdicts.json` says, for
changed copies of each, which were accepted: a text of 0 and 1 for every change that `mutated` makes at a few places.
"""

import json
from pathlib import Path

import pytest

from tallyveil.errors import StoreError
from tallyveil.files.manifest import ReleaseKind
from tallyveil.files.manifest_files import parsed_manifest
from tallyveil.plans.fitting import stated_plan
from tallyveil.storage.json_files import digest_of

FOLDER = Path(__file__).parent / "stored"
PLANS = json.loads((FOLDER / "plans.json").read_text())
MANIFESTS = json.loads((FOLDER / "manifests.json").read_text())
VERDICTS = json.loads((FOLDER / "verdicts.json").read_text())
REPLACEMENTS = (None, -1, True, 1.5, "x", "2/4", [], {}, ["x"])
EVERY = 67
"""One change in so many is tried, so that the test takes seconds: a plan has tens of thousands of changes."""


def changes(value, place=()):
    """Places of a JSON value, each with what is put there; None in place of the function means that it is left out."""
    for other in REPLACEMENTS:
        if json.dumps(other) != json.dumps(value):
            yield place, (other,)
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*place, key), ()
        yield from changes(part, (*place, key))


def changed(value, place, replacement):
    copy = json.loads(json.dumps({"whole": value}))
    part, keys = copy, ("whole", *place)
    for key in keys[:-1]:
        part = part[key]
    if replacement:
        part[keys[-1]] = replacement[0]
    else:
        del part[keys[-1]]
    return copy["whole"]


def resealed(manifest):
    """The manifest with the digests that a careful forger would give it."""
    if not isinstance(manifest, dict):
        return manifest
    body = manifest.get("body")
    if isinstance(body, dict) and isinstance(body.get("plan"), dict):
        manifest = {**manifest, "plan_digest": digest_of(body["plan"]).hex()}
    content = {name: part for name, part in manifest.items() if name != "digest"}
    return {**manifest, "digest": digest_of(content).hex()}


def today(manifest):
    """The manifest as this version writes it: without seconds and memory."""
    left_out = ("digest", "performance")
    return resealed({name: part for name, part in manifest.items() if name not in left_out} | {"format": 4})


def accepts_plan(plan):
    try:
        stated_plan(Path("manifest.json"), plan)
    except StoreError:
        return False
    return True


def accepts_manifest(manifest):
    try:
        parsed_manifest(Path("release"), manifest)
    except StoreError:
        return False
    return True


def verdicts(value, accepts, sealed=lambda copy: copy):
    """What is accepted of the changed copies, which begin with keys: the whole is an object."""
    tried = [change for change in list(changes(value))[::EVERY] if change[0]]
    return "".join(str(int(accepts(sealed(changed(value, *change))))) for change in tried)


@pytest.mark.parametrize("number", range(len(PLANS)))
def test_stored_plans_are_read_with_their_digest(number):
    plan = PLANS[number]["plan"]
    stated_plan(Path("manifest.json"), plan)
    assert digest_of(plan).hex() == PLANS[number]["digest"]
    assert verdicts(plan, accepts_plan) == VERDICTS["plans"][number]


@pytest.mark.parametrize("number", range(len(MANIFESTS)))
def test_stored_manifests_are_read_and_written_again_as_they_were(number):
    stored = MANIFESTS[number]
    assert json.dumps(parsed_manifest(Path("release"), stored).to_mapping()) == json.dumps(today(stored))
    assert verdicts(today(stored), accepts_manifest, resealed) == VERDICTS["manifests"][number]


def test_every_kind_of_release_is_stored():
    assert len({manifest["kind"] for manifest in MANIFESTS}) == len(ReleaseKind)
