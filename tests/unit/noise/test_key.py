"""Keys."""

import hashlib
import hmac

import pytest

from tallyveil.errors import ConfigError
from tallyveil.noise import derive_key, insecure_key, new_run_key

RUN_KEY = bytes(range(32))


def test_derived_key_is_the_documented_construction() -> None:
    def part(text: bytes) -> bytes:
        return len(text).to_bytes(8, "little") + text

    message = b"tallyveil/derive-key/1" + part(b"measure") + part(b"input digest") + part(b"plan digest")
    wanted = hmac.new(RUN_KEY, message, hashlib.sha256).digest()
    assert derive_key(RUN_KEY, "measure", b"input digest", b"plan digest") == wanted


def test_derived_key_is_golden() -> None:
    assert derive_key(RUN_KEY, "measure", b"a", b"b").hex() == (
        "9af8fafc679cf262b0b1af72b0f6d017318fee8e3485975e2fc760887dc49fad"
    )
    assert insecure_key("test").hex() == "a2c450d0f79f00bf9af9591380b7de12086e1ab2ae7f2e2fe5f36a5fd19c26c0"


def test_parts_cannot_be_shifted_into_each_other() -> None:
    keys = {
        derive_key(RUN_KEY, "measure", b"ab", b"c"),
        derive_key(RUN_KEY, "measure", b"a", b"bc"),
        derive_key(RUN_KEY, "measure", b"abc"),
        derive_key(RUN_KEY, "measure", b"abc", b""),
        derive_key(RUN_KEY, "measurea", b"bc"),
        derive_key(RUN_KEY, "measure"),
        derive_key(RUN_KEY[::-1], "measure"),
    }
    assert len(keys) == 7


def test_new_run_keys_differ() -> None:
    assert len(new_run_key()) == 32
    assert new_run_key() != new_run_key()


def test_insecure_keys_depend_on_the_text_only() -> None:
    assert insecure_key("a") == insecure_key("a") != insecure_key("b")
    assert len(insecure_key("")) == 32


@pytest.mark.parametrize("key", [b"", b"CANARY" * 5, bytearray(b"CANARY!!" * 4), "CANARY!!" * 4])
def test_wrong_key_is_refused_without_showing_it(key: bytes) -> None:
    with pytest.raises(ConfigError, match="wanted 32 bytes") as caught:
        derive_key(key, "measure")
    assert "CANARY" not in str(caught.value)
