"""Reading the bodies of requests, with limits on their size."""

from __future__ import annotations

from functools import lru_cache

from sonline.errors import SonlineError
from sonline.service.bodies import Limits, MediaTypeError, TooLargeError
from sonline.service.exchange import FILE, LINES, Request

ROW_LINES = (LINES, "application/jsonl", "application/ndjson")
MODEL_BYTES = 256 << 20  # of a model file


class DisconnectError(SonlineError):
    """The client closed the connection before its request was complete."""


class BodyReader:
    """Reads bodies.

    Parameters
    ----------
    limits : Limits
        How large they may be.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    async def read(self, request: Request, kinds: tuple[str, ...]) -> tuple[bytes, str]:
        """Return the body of a request and its type, both checked.

        Raises
        ------
        MediaTypeError, TooLargeError, DisconnectError
            If it has another type, is too large, or does not arrive.
        """
        kind = media_type(request.header(b"content-type") or "")
        if kind not in kinds:
            raise MediaTypeError(f"content-type must be one of {', '.join(kinds)}; got {kind!r}")
        if (request.header(b"content-encoding") or "identity").lower() != "identity":
            raise MediaTypeError("compressed bodies are not supported")
        limit = MODEL_BYTES if kind == FILE else self.limits.body
        pieces, size, more = [], 0, True
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise DisconnectError("the client closed the connection")
            piece = message.get("body", b"")
            more = message.get("more_body", False)
            size += len(piece)
            if size > limit:
                raise TooLargeError(f"at most {limit} bytes in a body")
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), kind


@lru_cache(maxsize=256)
def media_type(header: str) -> str:
    """Return a content type without its parameters.

    Examples
    --------
    >>> media_type("Application/JSON; charset=utf-8")
    'application/json'
    """
    return header.partition(";")[0].strip().lower()
