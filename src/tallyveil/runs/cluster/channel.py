"""The channel on which a driver gives the secret of a run to a worker process, whatever carries the messages.

Each end makes a key pair on the curve P-256 for this one exchange. Both ends derive two keys by HKDF-SHA256
from the shared point (NIST SP 800-56A), followed by a digest of the cluster's token (SP 800-56C revision 2,
section 2), and bound to both public keys and the roles of their owners. The worker process proves that it has
the first key by an HMAC-SHA256. Only then does the driver send the secret, encrypted by AES-256-GCM under the
second key.

So a worker process that does not know the token gets nothing, and neither does whoever reads the messages or
later learns the token. Who knows the token and can change messages on their way may take the place of a
worker process. Without a token the channel is encrypted, but nobody knows who is at its other end.

The token is the one that a Ray cluster demands, and is read where Ray reads it.
"""

import hashlib
import hmac
import os
from pathlib import Path
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tallyveil.errors import ClusterError

TOKEN: Final = "RAY_AUTH_TOKEN"
TOKEN_PATH: Final = "RAY_AUTH_TOKEN_PATH"
MODE: Final = "RAY_AUTH_MODE"


def read_token() -> bytes | None:
    """The token of this machine: of RAY_AUTH_TOKEN, else of the file RAY_AUTH_TOKEN_PATH, else of ~/.ray/auth_token.

    Returns:
        None if there is none.
    Raises:
        ClusterError: RAY_AUTH_TOKEN_PATH names a file that cannot be read.
    """
    if os.environ.get(TOKEN, "").strip():
        return os.environ[TOKEN].strip().encode()
    named = os.environ.get(TOKEN_PATH, "").strip()
    path = Path(named) if named else Path.home() / ".ray" / "auth_token"
    try:
        return path.read_bytes().strip() or None
    except OSError as error:
        if not named:
            return None
        raise ClusterError(
            f"the token of the Ray cluster cannot be read: {TOKEN_PATH} names a file that gives "
            f"{type(error).__name__}. Correct the path or the file's mode.",
            code="cluster-token",
        ) from None


_LABEL: Final = b"tallyveil/cluster-channel/1"
_NONCE_BYTES: Final = 12
"""The length of 96 bits for which GCM is specified without a further hash (NIST SP 800-38D, section 5.2.1.1)."""
_CURVE: Final = ec.SECP256R1


class _Keys(NamedTuple):
    confirm: bytes
    seal: bytes
    transcript: bytes


class _End:
    """One end of the channel: a key pair for one exchange, and the token. Its repr shows neither."""

    def __init__(self, token: bytes | None) -> None:
        self._token = token
        self._private = ec.generate_private_key(_CURVE())

    @property
    def public(self) -> str:
        """The public key: an uncompressed point in hexadecimal."""
        point = self._private.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return point.hex()

    def _shared(self, other: str) -> bytes:
        try:
            # The library refuses points that are not on the curve, which protects the private key from invalid-curve
            # attacks.
            peer = ec.EllipticCurvePublicKey.from_encoded_point(_CURVE(), bytes.fromhex(other))
        except ValueError:
            raise ClusterError(
                "a public key of the channel between driver and worker process is no point of the curve P-256. The "
                "messages were changed on their way, or the versions differ.",
                code="cluster-token",
            ) from None
        return self._private.exchange(ec.ECDH(), peer)

    def _keys(self, other: str, driver: str, worker: str) -> _Keys:
        shared = self._shared(other)
        # Lengths in front, and roles with the keys: a message cannot be reflected to its sender or shifted between
        # fields.
        transcript = _LABEL + b"".join(
            len(part).to_bytes(8, "little") + part
            for part in (b"driver", bytes.fromhex(driver), b"worker", bytes.fromhex(worker))
        )
        # 64 bytes are two keys: knowing the one that confirms (from an HMAC) tells nothing of the one that seals.
        derived = HKDF(algorithm=SHA256(), length=64, salt=None, info=transcript)
        # Shared point first, token second: one who lacks either gets unrelated keys.
        both = derived.derive(shared + _digest(self._token))
        return _Keys(both[:32], both[32:], transcript)


class WorkerEnd(_End):
    """The end of a worker process."""

    def confirmation(self, driver: str) -> str:
        """Proof, for the driver with this public key, that this end knows the token.

        Raises:
            ClusterError: the text is no public key.
        """
        return _confirmation(self._keys(driver, driver, self.public))

    def opened(self, driver: str, sealed: str) -> bytes:
        """The secret that a driver sealed.

        Raises:
            ClusterError: whoever sealed it does not know the token, or it was changed.
        """
        keys = self._keys(driver, driver, self.public)
        try:
            data = bytes.fromhex(sealed)
            # The transcript is authenticated with it: a secret sealed for another exchange does not open.
            return AESGCM(keys.seal).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], keys.transcript)
        except (InvalidTag, ValueError):
            raise ClusterError(
                "a worker process was sent a message that does not come from a driver which knows the token of the "
                "cluster. Give every machine the same token.",
                code="cluster-token",
            ) from None


class DriverEnd(_End):
    """The end of the driver."""

    def require_confirmed(self, worker: str, confirmation: str) -> None:
        """Refuse a worker process, with this public key, that has not proved that it knows the token.

        Raises:
            ClusterError: the proof is wrong, or the text is no public key.
        """
        keys = self._keys(worker, self.public, worker)
        # In constant time, or the bytes of a right proof could be found one by one.
        if not hmac.compare_digest(_confirmation(keys).encode(), confirmation.encode()):
            raise ClusterError(
                "a worker process does not know the token of the cluster, so it was given nothing. Give every machine "
                "of the cluster the same token, as RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token, and start "
                "its nodes again.",
                code="cluster-token",
            )

    def sealed(self, worker: str, confirmation: str, secret: bytes) -> str:
        """The secret, encrypted for the worker process with this public key.

        Raises:
            ClusterError: as `require_confirmed`. Then nothing is encrypted.
        """
        self.require_confirmed(worker, confirmation)
        keys = self._keys(worker, self.public, worker)
        # Random, and used once: each exchange has a key of its own, which seals one message.
        nonce = os.urandom(_NONCE_BYTES)
        return (nonce + AESGCM(keys.seal).encrypt(nonce, secret, keys.transcript)).hex()


def _confirmation(keys: _Keys) -> str:
    return hmac.new(keys.confirm, b"worker confirms" + keys.transcript, hashlib.sha256).hexdigest()


def _digest(token: bytes | None) -> bytes:
    """32 bytes that stand for the token, or for its absence."""
    # Another input than any token gives: an open cluster is not one whose token is empty.
    if token is None:
        return hashlib.sha256(_LABEL + b"/open").digest()
    return hashlib.sha256(_LABEL + b"/token" + token).digest()
