"""Names, versions and tokens of a service, in SQLite."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from sonline.errors import InvalidInputError, ParameterError

SCOPES = ("predict", "learn", "admin")
CHAMPION, SHADOW, REMOVED = "champion", "shadow", "removed"
NAME = "[a-z0-9][a-z0-9_-]{0,62}"  # of a model
_PREFIX = "son_"

_SCHEMA = """
create table if not exists models (
  name text primary key, created real not null, previous integer
);
create table if not exists versions (
  name text not null references models(name), version integer not null, role text not null,
  origin text not null, created real not null, start integer not null,
  primary key (name, version)
);
create table if not exists tokens (
  id text primary key, note text not null, digest blob not null, scopes text not null,
  created real not null
);
"""


@dataclass(frozen=True)
class Version:
    """A version of a model: its role and its origin."""

    name: str
    version: int
    role: str
    origin: str
    created: float
    start: int  # the first event that it learns


@dataclass(frozen=True)
class Token:
    """A token without its secret."""

    id: str
    note: str
    scopes: tuple[str, ...]
    created: float


def check_name(name: str) -> str:
    """Return the name of a model, which is also the name of a folder.

    Examples
    --------
    >>> check_name("clicks-2")
    'clicks-2'
    """
    if not re.fullmatch(NAME, name):
        raise InvalidInputError(
            f"the name of a model has 1 to 63 of a-z, 0-9, - and _, and begins with a letter or "
            f"digit; got {name[:80]!r}"
        )
    return name


class Store:
    """The database of a service.

    Parameters
    ----------
    path : Path
        The file; created if missing.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        path.chmod(0o600)
        with self._lock:
            self._database.execute("pragma journal_mode=wal")
            self._database.execute("pragma synchronous=full")
            self._database.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, *statements: tuple[str, tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Run statements as one transaction, and return the rows of the last one."""
        rows: list[tuple[Any, ...]] = []
        with self._lock:
            self._database.execute("begin immediate")
            try:
                for statement, values in statements:
                    rows = self._database.execute(statement, values).fetchall()
            except BaseException:
                self._database.execute("rollback")
                raise
            self._database.execute("commit")
        return rows

    # -- models ----------------------------------------------------------------------------------

    def names(self) -> list[str]:
        """Return the names of the models."""
        return [name for (name,) in self._run(("select name from models order by name", ()))]

    def add_model(self, name: str, origin: str, start: int) -> None:
        """Store a model with its first version."""
        now = time.time()
        first = (name, 1, CHAMPION, origin, now, start)
        self._run(
            ("insert into models values (?, ?, null)", (name, now)),
            ("insert into versions values (?, ?, ?, ?, ?, ?)", first),
        )

    def versions(self, name: str) -> list[Version]:
        """Return the versions of a model."""
        query = (
            "select name, version, role, origin, created, start from versions "
            "where name = ? and role != ? order by version"
        )
        return [Version(*row) for row in self._run((query, (name, REMOVED)))]

    def next_version(self, name: str) -> int:
        """Return the number of the next version; numbers of removed ones are not used again."""
        rows = self._run(("select max(version) from versions where name = ?", (name,)))
        return int(rows[0][0]) + 1

    def add_version(self, name: str, version: int, origin: str, start: int) -> None:
        """Store a shadow."""
        self._run(
            (
                "insert into versions values (?, ?, ?, ?, ?, ?)",
                (name, version, SHADOW, origin, time.time(), start),
            )
        )

    def remove_version(self, name: str, version: int) -> None:
        """Remove a version."""
        query = "update versions set role = ? where name = ? and version = ?"
        self._run((query, (REMOVED, name, version)))

    def promote(self, name: str, version: int) -> None:
        """Make a version the champion; the previous champion becomes a shadow."""
        old = f"select version from versions where name = ? and role = '{CHAMPION}'"  # noqa: S608
        self._run(
            (f"update models set previous = ({old}) where name = ?", (name, name)),  # noqa: S608
            ("update versions set role = ? where name = ? and role != ?", (SHADOW, name, REMOVED)),
            (
                "update versions set role = ? where name = ? and version = ?",
                (CHAMPION, name, version),
            ),
        )

    def previous(self, name: str) -> int | None:
        """Return the previous champion."""
        rows = self._run(("select previous from models where name = ?", (name,)))
        return rows[0][0] if rows else None

    # -- tokens ----------------------------------------------------------------------------------

    def add_token(self, scopes: Iterable[str], note: str = "") -> str:
        """Create a token and return its secret, which is not stored."""
        chosen = tuple(dict.fromkeys(scopes))
        unknown = [scope for scope in chosen if scope not in SCOPES]
        if unknown or not chosen:
            raise ParameterError(f"scopes are {', '.join(SCOPES)}; got {', '.join(unknown)!r}")
        name, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        self._run(
            (
                "insert into tokens values (?, ?, ?, ?, ?)",
                (name, note, _digest(secret), json.dumps(chosen), time.time()),
            )
        )
        return f"{_PREFIX}{name}.{secret}"

    def tokens(self) -> list[Token]:
        """Return all tokens."""
        rows = self._run(("select id, note, scopes, created from tokens order by created", ()))
        return [Token(name, note, tuple(json.loads(s)), made) for name, note, s, made in rows]

    def remove_token(self, name: str) -> bool:
        """Remove a token, and return whether there was one."""
        rows = self._run(("delete from tokens where id = ? returning id", (name,)))
        return bool(rows)

    def check_token(self, text: str) -> Token | None:
        """Return the token with a secret; None if there is none."""
        name, _, secret = text.removeprefix(_PREFIX).partition(".")
        query = "select id, note, scopes, created, digest from tokens where id = ?"
        rows = self._run((query, (name,))) if text.startswith(_PREFIX) else []
        # The secret has 256 random bits, so the hash need not be slow.
        digest = rows[0][4] if rows else bytes(32)
        if not hmac.compare_digest(_digest(secret), digest) or not rows:
            return None
        return Token(rows[0][0], rows[0][1], tuple(json.loads(rows[0][2])), rows[0][3])


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()
