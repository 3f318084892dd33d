"""runs.json: every field is authenticated, and its key is never used under another noise law."""

import json
from dataclasses import replace

import pytest

import tallyveil
from tallyveil.errors import StoreError
from tallyveil.noise.key import insecure_key
from tallyveil.runs import key_file as module
from tallyveil.runs.key_file import RunSecrets, binding_of, key_file, read_key_file

BINDING, PLAN = b"b" * 32, b"p" * 32
SECRETS = RunSecrets(insecure_key("key file"), BINDING, PLAN, protected=False)


def read(data, *, binding=BINDING, plan=PLAN, test_key=SECRETS.key):
    return read_key_file(data, "out", binding, plan, test_key, "Its ledger shows no spend.")


def stored(**changes) -> bytes:
    fields = {name: value for name, value in (key_file(SECRETS) | changes).items() if value is not None}
    return json.dumps(fields).encode()


def test_what_was_stored_is_read():
    found, versions = read(stored())
    assert versions == (tallyveil.__version__,)
    assert found == SECRETS
    assert found.run_id == SECRETS.run_id
    assert "redacted" in repr(found)


def test_another_version_derives_the_same_from_the_same_key():
    """A resumed run draws the same noise under the same name. What changes here needs another noise law or format."""
    keyed = RunSecrets(bytes(range(32)), BINDING, PLAN, protected=True)
    assert keyed.noise_key.hex() == "d609b902202151f0e97ae3755fa6a61bc1defdaea6ad2de0e12b18cd512668b3"
    assert keyed.files_key.hex() == "f208dddce9cffe2d67ab2f03f6a1bc526dff54c86d6006a19aeae8075a09a6af"
    assert keyed.run_id == "321a953662d5cb3c"
    assert keyed.commitment(b"digest") == "5ae8f142a8d10c8a4434d56df42388347e64a439deb8f22ce40583065692f6d1"
    assert (
        keyed.mac("checkpoint", {"b": 1, "a": [2]})
        == "2de3e413a7f9e045258b4d4dc1142242c68ba2fbdee218b9033058e6cf60dad4"
    )
    assert (
        binding_of(b"one", b"", b"three").hex()
        == "3b353ce7e70c3a9a7c28ae0a1fe3a9c6dff17a78c08b181dc96008ee5cb92169"
    )


def test_the_file_is_the_one_that_other_versions_read():
    keyed = RunSecrets(bytes(range(32)), BINDING, PLAN, protected=True)
    assert key_file(keyed, ("0.9", "1.0")) == {
        "format": 3,
        "versions": ["0.9", "1.0"],
        "noise_law": 1,
        "protected": True,
        "key": bytes(range(32)).hex(),
        "plan": PLAN.hex(),
        "inputs": "a714c0f4f464889e2bea25b8ac83c0b5c7332218e1c16cb253623590213bf714",
        "mac": "f572a8254c6acfc060696f468ffe17419091e094cefff32ee222f216225ba555",
    }


def test_files_say_whether_they_protect():
    assert SECRETS.file_tags() == {
        "run": SECRETS.run_id,
        "protected": "false: made with an insecure test key, protects nobody",
    }
    assert replace(SECRETS, protected=True).file_tags() == {"run": SECRETS.run_id, "protected": "true"}


def test_digests_are_bound_apart():
    assert (
        len({binding_of(b"a", b"b"), binding_of(b"ab"), binding_of(b"ab", b""), binding_of(b"", b"ab")}) == 4
    )


def test_other_inputs_give_another_noise_key_and_another_output_does_not():
    other_inputs = RunSecrets(SECRETS.key, b"c" * 32, PLAN, protected=False)
    other_output = RunSecrets(SECRETS.key, BINDING, b"q" * 32, protected=False)
    assert SECRETS.noise_key != other_inputs.noise_key
    assert SECRETS.noise_key == other_output.noise_key
    assert len({SECRETS.run_id, other_inputs.run_id, other_output.run_id}) == 3
    assert SECRETS.noise_key not in (SECRETS.key, SECRETS.files_key)


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
    "version as number": stored(versions=1),
    "no versions": stored(versions=[]),
    "versions as numbers": stored(versions=[1]),
    "another version put in": stored(versions=["9.9", tallyveil.__version__]),
    "fields of two formats": stored(version="9.9"),
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


def test_another_noise_law_is_refused_with_both_names(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(module, "NOISE_LAW", 2)
        data = stored()
    with pytest.raises(StoreError) as caught:
        read(data)
    assert caught.value.code == "resume-version"
    assert f"'{tallyveil.__version__}' (noise law 2)" in str(caught.value)
    assert f"'{tallyveil.__version__}' (noise law 1)" in str(caught.value)


def kept_by(by: list[str], /, **changes: object) -> bytes:
    """A file that is authentic and names these versions; changes are authenticated, too."""
    fields = {**key_file(SECRETS, by), **changes}
    named = {name: value for name, value in fields.items() if value is not None and name != "mac"}
    return json.dumps({**named, "mac": module._mac_of(SECRETS.key, named)}).encode()


@pytest.mark.parametrize(
    ("data", "versions"),
    [
        (kept_by(["0.0.9"]), ("0.0.9", tallyveil.__version__)),
        (kept_by(["0.0.9", tallyveil.__version__]), ("0.0.9", tallyveil.__version__)),
        (kept_by(["9.9"]), ("9.9", tallyveil.__version__)),
        (kept_by([], versions=None, version="0.0.9", format=2), ("0.0.9", tallyveil.__version__)),
        (kept_by([], versions=None, version=tallyveil.__version__, format=2), (tallyveil.__version__,)),
    ],
    ids=["earlier", "both", "later", "format 2", "format 2 of this version"],
)
def test_another_version_under_the_same_law_goes_on_and_is_named(data, versions):
    assert read(data) == (SECRETS, versions)


def test_a_file_in_an_unknown_format_of_another_version_is_refused():
    with pytest.raises(StoreError) as caught:
        read(kept_by(["9.9"], format=4))
    assert caught.value.code == "resume-version"


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
