"""The secret reaches an end that knows the token, and no other."""

import hashlib
import hmac

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tallyveil.errors import ClusterError
from tallyveil.runs.cluster.channel import DriverEnd, WorkerEnd

SECRET = b"the run key and more"


def exchange(driver: DriverEnd, worker: WorkerEnd) -> bytes:
    sealed = driver.sealed(worker.public, worker.confirmation(driver.public), SECRET)
    assert SECRET.hex() not in sealed
    return worker.opened(driver.public, sealed)


@pytest.mark.parametrize("token", [b"t" * 64, None])
def test_both_ends_of_a_token_exchange_the_secret(token):
    assert exchange(DriverEnd(token), WorkerEnd(token)) == SECRET


@pytest.mark.parametrize(("driver", "worker"), [(b"a", b"b"), (b"a", None), (None, b"b")])
def test_a_worker_without_the_token_gets_nothing(driver, worker):
    with pytest.raises(ClusterError, match="does not know the token"):
        exchange(DriverEnd(driver), WorkerEnd(worker))
    one, other = DriverEnd(driver), WorkerEnd(worker)
    with pytest.raises(ClusterError, match="does not know the token") as caught:
        one.require_confirmed(other.public, other.confirmation(one.public))
    assert caught.value.code == "cluster-token"


def test_somebody_who_confirms_without_the_token_cannot_open():
    """Even if the driver skipped its check, the sealed text would tell nothing: the token is in its key."""
    driver, impostor, owner = DriverEnd(b"a"), WorkerEnd(b"b"), WorkerEnd(b"a")
    owner._private = impostor._private
    sealed = driver.sealed(owner.public, owner.confirmation(driver.public), SECRET)
    with pytest.raises(ClusterError, match="does not come from a driver") as caught:
        impostor.opened(driver.public, sealed)
    assert caught.value.code == "cluster-token"


def test_the_sealed_secret_is_bound_to_the_exchange():
    driver, worker = DriverEnd(b"a"), WorkerEnd(b"a")
    confirmed = worker.confirmation(driver.public)
    sealed = driver.sealed(worker.public, confirmed, SECRET)
    changed = sealed[:-2] + f"{int(sealed[-2:], 16) ^ 1:02x}"
    for other, text in ((driver.public, changed), (driver.public, "0"), (DriverEnd(b"a").public, sealed)):
        with pytest.raises(ClusterError):
            worker.opened(other, text)
    with pytest.raises(ClusterError):
        DriverEnd(b"a").sealed(worker.public, confirmed, SECRET)
    assert driver.sealed(worker.public, confirmed, SECRET) != sealed


@pytest.mark.parametrize("public", ["", "zz", "04" + "11" * 64])
def test_what_is_no_point_is_refused(public):
    with pytest.raises(ClusterError, match="no point of the curve") as caught:
        WorkerEnd(b"a").confirmation(public)
    assert caught.value.code == "cluster-token"


def hkdf(secret: bytes, info: bytes, length: int) -> bytes:
    """HKDF-SHA256 without a salt, as RFC 5869 has it."""
    key = hmac.digest(bytes(32), secret, "sha256")
    block, made = b"", b""
    for number in range(1, length // 32 + 1):
        block = hmac.digest(key, block + info + bytes([number]), "sha256")
        made += block
    return made


@pytest.mark.parametrize(
    ("token", "stands_for_it"),
    [(None, b"tallyveil/cluster-channel/1/open"), (b"known", b"tallyveil/cluster-channel/1/tokenknown")],
)
def test_a_worker_process_of_another_make_understands_the_driver(token, stands_for_it):
    """All that it needs to know is what the module says of the channel, here written out with the standard library."""
    driver, private = DriverEnd(token), ec.generate_private_key(ec.SECP256R1())
    numbers = private.public_key().public_numbers()
    public = b"\x04" + numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")
    theirs = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes.fromhex(driver.public))
    transcript = b"tallyveil/cluster-channel/1"
    for part in (b"driver", bytes.fromhex(driver.public), b"worker", public):
        transcript += bytes([len(part), *bytes(7)]) + part
    shared = private.exchange(ec.ECDH(), theirs) + hashlib.sha256(stands_for_it).digest()
    keys = hkdf(shared, transcript, 64)
    proof = hmac.new(keys[:32], b"worker confirms" + transcript, "sha256").hexdigest()
    sealed = bytes.fromhex(driver.sealed(public.hex(), proof, SECRET))
    assert AESGCM(keys[32:]).decrypt(sealed[:12], sealed[12:], transcript) == SECRET


def test_an_end_does_not_show_its_token():
    assert "token-text" not in repr(DriverEnd(b"token-text"))
