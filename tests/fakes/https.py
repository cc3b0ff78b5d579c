"""A server of payloads with a certificate of its own, and the names of hosts that lead to it."""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from controlplane.core import clock

HOST = "data.example.com"


@dataclass
class Payloads:
    """What it serves: by path, a status, headers and a body. `asked` is a journal.

    Paths in `cut` break off in the middle, those in `chunked` have no length, those in `drips` come byte by byte with so
    many seconds in between.
    """

    port: int
    certificate: Path
    answers: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    chunked: set[str] = field(default_factory=set)
    drips: dict[str, float] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = clock.now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    chain, private = folder / "certificate.pem", folder / "key.pem"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, private


def _handler(payloads: Payloads) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            payloads.asked.append((self.headers.get("Host", ""), self.path))
            status, headers, body = payloads.answers.get(self.path, (404, {}, b"no such payload"))
            is_chunked = self.path in payloads.chunked
            framing = ("Transfer-Encoding", "chunked") if is_chunked else ("Content-Length", str(len(body)))
            self.send_response(status)
            for name, value in (framing, *headers.items()):
                self.send_header(name, value)
            self.end_headers()
            framed = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if is_chunked else body
            self._send(framed[: len(framed) // 2] if self.path in payloads.cut else framed)

        def _send(self, data: bytes) -> None:
            if (seconds := payloads.drips.get(self.path)) is None:
                self.wfile.write(data)
                return
            for place in range(len(data)):
                try:
                    self.wfile.write(data[place : place + 1])
                except OSError:  # whoever read it has gone
                    return
                threading.Event().wait(seconds)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the overridden name
            """Say nothing."""

    return Handler


@contextmanager
def payload_server(folder: Path) -> Iterator[Payloads]:
    """A running server; trust `certificate` to reach it as HOST."""
    chain, private = _certificate(folder)
    payloads = Payloads(0, chain)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(payloads))
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, private)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    payloads.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield payloads
    finally:
        server.shutdown()
        server.server_close()
