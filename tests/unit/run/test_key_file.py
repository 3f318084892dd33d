"""run.json: every field is authenticated, and another version never goes on with its key."""

import json

import pytest

import tallyveil
from tallyveil.errors import StoreError
from tallyveil.noise.key import insecure_key
from tallyveil.run import key_file as module
from tallyveil.run.key_file import RunSecrets, key_file, read_key_file

BINDING, PLAN = b"b" * 32, b"p" * 32
SECRETS = RunSecrets(insecure_key("key file"), BINDING, PLAN, protected=False)


def read(data, *, binding=BINDING, plan=PLAN, test_key=SECRETS.key):
    return read_key_file(data, "out", binding, plan, test_key, "Its ledger shows no spend.")


def stored(**changes) -> bytes:
    fields = {name: value for name, value in (key_file(SECRETS) | changes).items() if value is not None}
    return json.dumps(fields).encode()


def test_what_was_stored_is_read():
    found = read(stored())
    assert found == SECRETS
    assert found.run_id == SECRETS.run_id
    assert "redacted" in repr(found)


DAMAGED = {
    "empty": b"",
    "half": stored()[:40],
    "no object": b"[]",
    "no keys": b"{}",
    "no text": b"\xff\xfe",
    "nested": b"[" * 100_000,
    "protected edited": stored(protected=True),
    "protected as text": stored(protected="no"),
    "short key": stored(key="00"),
    "key of no digits": stored(key="z" * 64),
    "another key": stored(key="00" * 32),
    "key as number": stored(key=7),
    "another plan": stored(plan="00" * 32),
    "other inputs": stored(inputs="00" * 32),
    "no mac": stored(mac=None),
    "mac as number": stored(mac=5),
    "another mac": stored(mac="0" * 64),
    "mac of letters": stored(mac="é" * 64),
    "another format": stored(format=1),
    "one key more": stored(more=1),
    "version as number": stored(version=1),
    "law as text": stored(noise_law="1"),
    "law as truth": stored(noise_law=True),
}


@pytest.mark.parametrize("how", DAMAGED)
def test_every_damage_is_one_clear_error(how):
    with pytest.raises(StoreError, match="damaged") as caught:
        read(DAMAGED[how])
    assert caught.value.code == "run-damaged"
    assert SECRETS.key.hex() not in str(caught.value)


def test_every_bit_counts():
    data = stored()
    for place in range(len(data)):
        changed = data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]
        with pytest.raises(StoreError):
            read(changed)


@pytest.mark.parametrize("changes", [{"version": "9.9"}, {"noise_law": 2}])
def test_another_version_is_refused_with_both_names(changes, monkeypatch):
    here = f"'{tallyveil.__version__}' (noise law 1)"
    with monkeypatch.context() as patch:
        patch.setattr(tallyveil, "__version__", changes.get("version", tallyveil.__version__))
        patch.setattr(module, "NOISE_LAW", changes.get("noise_law", 1))
        data = stored()
        law = changes.get("noise_law", 1)
        there = f"'{tallyveil.__version__}' (noise law {law})"
    with pytest.raises(StoreError) as caught:
        read(data)
    assert caught.value.code == "resume-version"
    assert here in str(caught.value)
    assert there in str(caught.value)


def test_the_file_of_a_version_that_kept_none_is_refused():
    old = json.dumps({"key": SECRETS.key.hex(), "bound": "00" * 32, "private": False}).encode()
    with pytest.raises(StoreError) as caught:
        read(old)
    assert caught.value.code == "resume-version"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"binding": b"x"}, "resume-changed"),
        ({"plan": b"x"}, "resume-changed"),
        ({"test_key": insecure_key("x")}, "resume-key"),
        ({"test_key": None}, "resume-key"),
    ],
)
def test_other_inputs_plans_and_keys_are_refused(given, code):
    with pytest.raises(StoreError) as caught:
        read(stored(), **given)
    assert caught.value.code == code
