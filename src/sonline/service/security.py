"""Access: tokens with scopes, rate limits, and requests from pages of other sites.

Without tokens a service is for programs of the same machine: it answers only requests to
localhost, so that a page of another site cannot reach it under another host name.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from functools import lru_cache
from urllib.parse import urlsplit

from sonline.errors import SonlineError
from sonline.service.exchange import Request
from sonline.service.outcomes import UnavailableError
from sonline.service.records import StoreError
from sonline.service.tokens import Token, Tokens

log = logging.getLogger("sonline.service")

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CACHED = 5.0  # seconds after which a token that was removed is refused
_REMEMBERED = 10_000  # tokens or clients that are remembered


class DeniedError(SonlineError):
    """A request that is not allowed."""

    def __init__(self, status: int, message: str, retry: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry = retry


@lru_cache(maxsize=256)
def _is_local(host: str) -> bool:
    """Return whether the host in a request is this machine."""
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK
    except ValueError:
        return False


class Rates:
    """Rate limits: a token bucket for each client.

    Examples
    --------
    >>> rates = Rates(2.0)
    >>> [rates.take("a", now) for now in (0.0, 0.1, 0.2, 1.0)]
    [0.0, 0.0, 0.3, 0.0]
    """

    def __init__(self, per_second: float) -> None:
        self.per_second = per_second
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, now: float | None = None) -> float:
        """Return 0, or how many seconds to wait."""
        if self.per_second <= 0:
            return 0.0
        now = time.monotonic() if now is None else now
        full = max(self.per_second, 1.0)
        level, last = self._buckets.pop(client, (full, now))
        level = min(full, level + (now - last) * self.per_second)
        allowed = level >= 1.0
        self._buckets[client] = (level - 1.0 if allowed else level, now)
        if len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else round((1.0 - level) / self.per_second, 3)


class Guard:
    """Checks whether a request is allowed, before anything else.

    Parameters
    ----------
    tokens : Tokens
        Known tokens.
    required : bool
        Whether requests always need a token: if the service listens on other addresses than
        localhost. Otherwise they need one as soon as there has been a token.
    rate : float
        Requests per second and token, or address for requests without a token; 0 is no limit.
    """

    def __init__(self, tokens: Tokens, required: bool, rate: float = 0.0) -> None:
        self._tokens = tokens
        self._required = required
        self._rates = Rates(rate)
        self._failures = Rates(5.0)
        self._any: tuple[float, bool] = (-_CACHED, False)
        self._known: OrderedDict[bytes, tuple[float, Token]] = OrderedDict()

    def needs_token(self) -> bool:
        """Return whether requests need a token."""
        if self._required:
            return True
        now = time.monotonic()
        if now - self._any[0] >= 1.0:
            self._any = now, self._tokens.used
        return self._any[1]

    def check(self, request: Request, scope: str) -> str:
        """Return the id of the client; raise `DeniedError` if the request is not allowed."""
        self._refuse_other_sites(request)
        try:
            return self._allowed(request, scope)
        except StoreError as error:  # it has the path of the file, which is not for everybody
            log.error("tokens", extra={"facts": {"reason": str(error)}})  # noqa: TRY400
            raise UnavailableError("tokens cannot be read; see the log of the service") from None

    def _allowed(self, request: Request, scope: str) -> str:
        address = request.client
        if not self.needs_token():
            if not _is_local(request.header(b"host") or ""):
                raise DeniedError(
                    421,
                    "without tokens this service answers localhost only; create a token",
                )
            self._take(address)
            return address
        token = self._token(request, address)
        if scope not in token.scopes and "admin" not in token.scopes:
            raise DeniedError(403, f"this token has no scope {scope!r}")
        self._take(token.id)
        return token.id

    def allows(self, request: Request, scope: str) -> bool:
        """Return whether a request is allowed, for paths that tell others less."""
        try:
            self.check(request, scope)
        except SonlineError:
            return False
        return True

    def _take(self, client: str) -> None:
        wait = self._rates.take(client)
        if wait:
            raise DeniedError(429, "too many requests", wait)

    def _token(self, request: Request, client: str) -> Token:
        kind, _, text = (request.header(b"authorization") or "").partition(" ")
        if kind.lower() != "bearer" or not text:
            raise DeniedError(401, "send a token: Authorization: Bearer ...")
        text = text.strip()
        now = time.monotonic()
        # The hash is the key, so that no secret stays in memory.
        key = hashlib.sha256(text.encode(errors="surrogateescape")).digest()
        cached = self._known.get(key)
        if cached is not None and now - cached[0] < _CACHED:
            return cached[1]
        token = self._tokens.check(text)
        if token is None:
            self._known.pop(key, None)
            wait = self._failures.take(client)
            if wait:
                raise DeniedError(429, "too many wrong tokens", wait)
            raise DeniedError(401, "this token is not known")
        self._known[key] = now, token
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return token

    @staticmethod
    def _refuse_other_sites(request: Request) -> None:
        """Raise an error about a request from a page of another site."""
        origin = request.header(b"origin")
        if origin is not None and origin.partition("://")[2] != request.header(b"host"):
            raise DeniedError(403, "requests from pages of other sites are refused")
