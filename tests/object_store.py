"""A small object store for tests: the part of the protocol of Amazon S3 that pyarrow and polars use, in memory.

A test may change what it holds between two requests, and refuse requests. Signatures are not checked.
"""

import hashlib
import io
import re
import ssl
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class ObjectStore:
    """Buckets with objects, served on a port of this machine; use as a context manager.

    Attributes:
        objects: Bytes of each object, by bucket, slash and key. A bucket is there if `buckets` names it.
        requests: Method and name of each request, in order.
        before: Called with method and name before each request is answered; may change `objects`.
        denied: Methods that are refused with 403.
    """

    def __init__(self, *buckets: str) -> None:
        self.buckets = set(buckets)
        self.objects: dict[str, bytes] = {}
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], Any] = lambda method, name: None
        self.denied: set[str] = set()
        self.parts: dict[str, dict[int, bytes]] = {}
        self.scheme = "http"
        store = self

        class Handler(_Handler):
            holds = store

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}"

    def __enter__(self) -> "ObjectStore":
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def encrypt(self, folder: Path) -> Path:
        """Answer with TLS from now on; returns the certificate of the authority that signed the store's own."""
        authority, certificate = certificates(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.scheme = "https"
        return authority

    def environment(self) -> dict[str, str]:
        """The variables by which a program finds the store."""
        return {
            "AWS_ACCESS_KEY_ID": "the-key-id",
            "AWS_SECRET_ACCESS_KEY": "the-secret-that-nobody-may-see",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.url,
        }


def certificates(folder: Path) -> tuple[Path, Path]:
    """Files with the certificate of an authority, and with one of this machine that it signed, with its key."""
    own, name = ec.generate_private_key(ec.SECP256R1()), _named("authority")
    key, pem = ec.generate_private_key(ec.SECP256R1()), serialization.Encoding.PEM
    here = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    authority = _begun(name, name, own, authority=True).sign(own, hashes.SHA256())
    signed = _begun(_named("store"), name, key, authority=False).add_extension(here, critical=False)
    certificate = signed.sign(own, hashes.SHA256())
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "authority.pem").write_bytes(authority.public_bytes(pem))
    (folder / "store.pem").write_bytes(certificate.public_bytes(pem) + key.private_bytes(pem, *plain))
    return folder / "authority.pem", folder / "store.pem"


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(name: x509.Name, issuer: x509.Name, key: Any, *, authority: bool) -> x509.CertificateBuilder:
    years = datetime(2020, 1, 1, tzinfo=UTC), datetime(2090, 1, 1, tzinfo=UTC)
    return x509.CertificateBuilder(
        issuer, name, key.public_key(), x509.random_serial_number(), *years
    ).add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    holds: ObjectStore

    def log_message(self, *_: Any) -> None:
        """Write nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def answer(self) -> None:
        store, split = self.holds, urlsplit(self.path)
        name = unquote(split.path.lstrip("/"))
        query = parse_qs(split.query, keep_blank_values=True)
        body = self.body()
        store.requests.append((self.command, name))
        store.before(self.command, name)
        if self.command in store.denied:
            return self.reply(403, _error("AccessDenied"))
        if name.split("/")[0] not in store.buckets:
            return self.reply(404, _error("NoSuchBucket"))
        if self.command in ("PUT", "POST"):
            return self.write(name, query, body)
        if self.command == "DELETE":
            store.objects.pop(name, None)
            return self.reply(204)
        if "/" not in name.rstrip("/"):
            return self.reply(200, _listed(store, name.rstrip("/"), query))
        return self.read(name)

    def body(self) -> bytes:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            data = _joined(self.rfile)
            while self.rfile.readline().strip():
                continue  # trailers
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            data = _joined(io.BytesIO(data))
        return data

    def write(self, name: str, query: dict[str, list[str]], body: bytes) -> None:
        store = self.holds
        if "uploads" in query:
            store.parts[name] = {}
            return self.reply(200, f"<InitiateMultipartUploadResult><UploadId>{len(store.requests)}</UploadId>"
                                   "</InitiateMultipartUploadResult>")  # fmt: skip
        if "partNumber" in query:
            store.parts[name][int(query["partNumber"][0])] = body
            return self.reply(200, "", body)
        if self.command == "POST":
            found = store.parts.pop(name)
            store.objects[name] = b"".join(found[number] for number in sorted(found))
            return self.reply(
                200, "<CompleteMultipartUploadResult><ETag>done</ETag></CompleteMultipartUploadResult>"
            )
        store.objects[name] = body
        return self.reply(200, "", body)

    def read(self, name: str) -> None:
        data = self.holds.objects.get(name)
        if data is None:
            return self.reply(404, _error("NoSuchKey"))
        span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        tail = re.fullmatch(r"bytes=-(\d+)", self.headers.get("Range", ""))
        if span is None and tail is None:
            return self.reply(200, data, data)
        first = int(span[1]) if span else max(0, len(data) - int(tail[1]))
        last = min(len(data) - 1, int(span[2]) if span and span[2] else len(data) - 1)
        return self.reply(206, data[first : last + 1], data, f"bytes {first}-{last}/{len(data)}")

    def reply(
        self, code: int, content: str | bytes = b"", tagged: bytes | None = None, span: str | None = None
    ) -> None:
        data = content.encode() if isinstance(content, str) else content
        self.send_response(code)
        self.send_header("Content-Length", str(len(data)))
        if tagged is not None:
            self.send_header("ETag", f'"{hashlib.md5(tagged).hexdigest()}"')
            self.send_header("Last-Modified", "Wed, 21 Oct 2026 07:28:00 GMT")
            self.send_header("Accept-Ranges", "bytes")
        if span is not None:
            self.send_header("Content-Range", span)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _joined(stream: BinaryIO) -> bytes:
    """The chunks of a body, each after a line with its length."""
    whole = b""
    while length := int(stream.readline().split(b";")[0], 16):
        whole += stream.read(length)
        stream.readline()
    return whole


def _error(code: str) -> str:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>refused</Message></Error>"


def _listed(store: ObjectStore, bucket: str, query: dict[str, list[str]]) -> str:
    prefix = query.get("prefix", [""])[0]
    names = {
        name.partition("/")[2]: data for name, data in store.objects.items() if name.startswith(f"{bucket}/")
    }
    rows = [
        f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size><ETag>x</ETag>"
        "<LastModified>2026-10-21T07:28:00.000Z</LastModified></Contents>"
        for key, data in sorted(names.items())
        if key.startswith(prefix)
    ]
    return (
        f"<?xml version='1.0'?><ListBucketResult><Name>{bucket}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>"
        f"{len(rows)}</KeyCount><IsTruncated>false</IsTruncated>{''.join(rows)}</ListBucketResult>"
    )
