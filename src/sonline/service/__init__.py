"""A learning service: durable events, delayed labels, versions, and a page to watch it learn.

``sonline serve`` starts it; `create_app` makes it a part of another application. docs/service.md
shows how it is used, docs/service-security.md what it defends against.
"""

from __future__ import annotations

from typing import Any

__all__ = ["create_app"]


def create_app(*args: Any, **settings: Any) -> Any:
    """Return the service as an ASGI application; see `sonline.service.app.create_app`."""
    from sonline.errors import require  # noqa: PLC0415 - an extra

    for package in ("msgspec", "prometheus_client"):
        require(package, "serve")
    from sonline.service.app import create_app as create  # noqa: PLC0415

    return create(*args, **settings)
