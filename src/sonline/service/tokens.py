"""Tokens of a service, in SQLite: hashes, never secrets."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Self

from sonline.errors import ParameterError
from sonline.service.records import StoreError

SCOPES = ("predict", "learn", "admin")
FILE = "tokens.db"
_PREFIX = "son_"
_TABLE = """
create table if not exists tokens (
  id text primary key, note text not null, digest blob not null, scopes text not null,
  created real not null
)
"""


@dataclass(frozen=True)
class Token:
    """A token without its secret."""

    id: str
    note: str
    scopes: tuple[str, ...]
    created: float


class Tokens:
    """The tokens of a service.

    Parameters
    ----------
    folder : Path
        Folder of the service. Its file with tokens is created if missing.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        if self._path.is_file() and not self._path.stat().st_size:
            self._refuse("empty")
        self._lock = threading.Lock()
        self._database = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        self._path.chmod(0o600)
        self._run("pragma synchronous=full")
        self._run(_TABLE)
        if self._run("pragma quick_check(1)") != [("ok",)]:
            self._refuse("damaged")

    def _refuse(self, why: str) -> NoReturn:
        raise StoreError(
            f"{self._path}: {why}; restore it from a copy, or move it away and create new tokens "
            f"with 'sonline token add --data {self._path.parent}'"
        ) from None

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _run(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._database.execute(statement, values).fetchall()
        except sqlite3.OperationalError as error:
            raise StoreError(f"{self._path} cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            self._refuse(f"damaged ({error})")

    def add(self, scopes: Iterable[str], note: str = "") -> str:
        """Create a token and return its secret, which is not stored."""
        chosen = tuple(dict.fromkeys(scopes))
        unknown = [scope for scope in chosen if scope not in SCOPES]
        if unknown or not chosen:
            raise ParameterError(f"scopes are {', '.join(SCOPES)}; got {', '.join(unknown)!r}")
        name, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        values = (name, note, _digest(secret), json.dumps(chosen), time.time())
        self._run("insert into tokens values (?, ?, ?, ?, ?)", values)
        return f"{_PREFIX}{name}.{secret}"

    def all(self) -> list[Token]:
        """Return all tokens."""
        rows = self._run("select id, note, scopes, created from tokens order by created")
        return [Token(name, note, tuple(json.loads(s)), made) for name, note, s, made in rows]

    def remove(self, name: str) -> bool:
        """Remove a token, and return whether there was one."""
        return bool(self._run("delete from tokens where id = ? returning id", (name,)))

    def check(self, text: str) -> Token | None:
        """Return the token with a secret; None if there is none."""
        name, _, secret = text.removeprefix(_PREFIX).partition(".")
        query = "select id, note, scopes, created, digest from tokens where id = ?"
        rows = self._run(query, (name,)) if text.startswith(_PREFIX) else []
        # The secret has 256 random bits, so the hash need not be slow.
        digest = rows[0][4] if rows else bytes(32)
        if not hmac.compare_digest(_digest(secret), digest) or not rows:
            return None
        return Token(rows[0][0], rows[0][1], tuple(json.loads(rows[0][2])), rows[0][3])


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()
