"""The server process: uvicorn, logs as JSON lines, and a graceful shutdown."""

from __future__ import annotations

import json
import logging
import signal
import socket
import ssl
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from sonline.errors import ParameterError
from sonline.model import Model
from sonline.service import demo
from sonline.service.app import create_app
from sonline.service.bodies import Limits
from sonline.service.connections import WAIT_SECONDS, Connection, Connections, most_connections
from sonline.service.memory import collect_less, return_large_blocks
from sonline.service.security import LOOPBACK
from sonline.service.service import Service
from sonline.service.settings import Settings

_SWITCH = 0.001  # seconds after which a learning thread must let predictions run


class Server(uvicorn.Server):
    """A server that closes the streams of open pages when it stops."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Refuse new requests, finish the others, then close the models."""
        self._service.stopping.set()
        # uvicorn would raise the signal again, but a graceful shutdown is not a failure.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def config_of(app: Any, **options: Any) -> uvicorn.Config:
    """Return the configuration of a server of HTTP whose connections are limited."""
    connections = Connections(ProxyHeadersMiddleware(app), most_connections())
    app.each_second = connections.close_slow
    usual = uvicorn.Config(app, log_config=None)
    usual.load()  # uvicorn chooses its protocol
    return uvicorn.Config(
        connections,
        http=lambda **values: Connection(connections, usual.http_protocol_class(**values)),  # type: ignore[arg-type]
        proxy_headers=False,  # the connections look at the address before
        access_log=False,
        log_config=None,
        timeout_keep_alive=int(WAIT_SECONDS),
        timeout_graceful_shutdown=10,
        server_header=False,
        ws="none",
        **options,
    )


class JsonLines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        facts: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        facts |= getattr(record, "facts", {})
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts)


def run(
    folder: Path,
    *,
    host: str,
    port: int,
    settings: Settings,
    limits: Limits,
    models: dict[str, Path],
    rate: float = 0.0,
    certificate: Path | None = None,
    key: Path | None = None,
    with_demo: bool = False,
    follow: bool = False,
    accept_loss: Collection[str] = (),
    started: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a folder until a signal ends it.

    Raises
    ------
    ParameterError
        If it would listen on other addresses than localhost without a token, or TLS fails.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.getLogger("sonline.service").setLevel(logging.INFO)
    for name in ("sonline.service", "uvicorn.error"):
        logging.getLogger(name).handlers = [handler]
        logging.getLogger(name).propagate = False
    if certificate is not None:
        _check_certificate(certificate, key)
    sys.setswitchinterval(_SWITCH)
    return_large_blocks()
    service = Service(folder, settings, follow=follow, accept_loss=accept_loss)
    local = host in LOOPBACK
    if not local and not service.tokens.all():
        service.close()
        raise ParameterError(
            f"others can reach {host}, and there is no token yet: create one with "
            f"'sonline token add --data {folder}', or listen on 127.0.0.1"
        )
    app = create_app(folder, limits=limits, tokens_required=not local, rate=rate, service=service)
    server = Server(
        config_of(
            app,
            ssl_certfile=None if certificate is None else str(certificate),
            ssl_keyfile=None if key is None else str(key),
        ),
        service,
    )
    try:
        with _listen(host, port) as listening:
            service.start()
            for name, path in models.items():
                if name not in service.engines:
                    service.create(name, Model.load(path), "file")
            if with_demo:
                demo.start(service)
            collect_less()
            for end in (signal.SIGINT, signal.SIGTERM):  # already now, before uvicorn runs
                signal.signal(end, server.handle_exit)
            shown = f"[{host}]" if ":" in host else host
            scheme = "https" if certificate else "http"
            started(f"{scheme}://{shown}:{listening.getsockname()[1]}/")
            server.run(sockets=[listening])
    finally:
        service.close()


def _check_certificate(certificate: Path, key: Path | None) -> None:
    """Raise an error about a certificate or key that cannot be used, before anything is started."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ParameterError(
            f"--tls-certificate {certificate} and --tls-key {key} must be a certificate and its "
            f"key, both PEM without a password: {error.strerror or error}"
        ) from None


def _listen(host: str, port: int) -> socket.socket:
    kind = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(kind, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
    return listening
