"""The algorithms are tried with published vectors, and a machine that lacks one is refused."""

import hashlib

import pytest
from cryptography.exceptions import InternalError, UnsupportedAlgorithm
from cryptography.hazmat.primitives.ciphers import Cipher

from tallyveil import primitives
from tallyveil.errors import SolverError
from tallyveil.primitives import require_aes256, require_hashes


def test_this_machine_has_them():
    require_hashes()
    require_aes256()


def refused(require):
    with pytest.raises(SolverError) as told:
        require()
    assert told.value.code == "algorithm-refused"
    return str(told.value)


def raising(error):
    def refuse(*_, **__):
        raise error

    return refuse


@pytest.mark.parametrize(("name", "called"), [("sha256", "SHA-256"), ("sha1", "SHA-1")])
def test_a_hash_that_is_refused(monkeypatch, name, called):
    monkeypatch.setattr(hashlib, name, raising(ValueError("unsupported hash type")))
    assert f"hashlib refuses {called}" in refused(require_hashes)


@pytest.mark.parametrize("error", [InternalError("", []), UnsupportedAlgorithm("no"), ValueError("no")])
def test_aes_that_is_refused(monkeypatch, error):
    monkeypatch.setattr(Cipher, "encryptor", raising(error))
    assert "`cryptography` refuses AES-256" in refused(require_aes256)


@pytest.mark.parametrize(
    ("known", "require"), [("SHA256_OF_ABC", require_hashes), ("AES256_CIPHER", require_aes256)]
)
def test_a_wrong_answer(monkeypatch, known, require):
    monkeypatch.setattr(primitives, known, "00")
    assert "wrong answer" in refused(require)
