"""Tokens of a service, in SQLite: hashes, never secrets."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

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

    The file is opened for each question: it may be replaced while the service runs, and a token
    that is no longer in it must not be accepted.

    Parameters
    ----------
    folder : Path
        Folder of the service. Its file with tokens is created if missing.
    read_only : bool, default=False
        Only read the file, which must be there.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        self._path = folder / FILE
        self._mode = "ro" if read_only else "rw"
        if self._path.is_file() and not self._path.stat().st_size:
            self._refuse("empty")
        if not read_only:
            with suppress(FileExistsError):
                os.close(os.open(self._path, os.O_CREAT | os.O_EXCL, 0o600))
            self._path.chmod(0o600)
            self._run(_TABLE)
        if self._run("pragma quick_check(1)") != [("ok",)]:
            self._refuse("damaged")

    def _refuse(self, why: str) -> NoReturn:
        raise StoreError(
            self._path,
            f": {why}",
            "restore it from a copy, or move it away and create new tokens "
            f"with 'sonline token add --data {self._path.parent}'",
        ) from None

    def _run(self, *statements: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run statements, the last one with values, and return the rows of the last one."""
        try:
            address = f"{self._path.absolute().as_uri()}?mode={self._mode}"
            with closing(sqlite3.connect(address, uri=True, isolation_level=None)) as database:
                database.execute("pragma synchronous=full")
                for statement in statements[:-1]:
                    database.execute(statement)
                return database.execute(statements[-1], values).fetchall()
        except sqlite3.OperationalError as error:
            raise StoreError(self._path, f" cannot be used: {error}") from error
        except sqlite3.DatabaseError as error:
            self._refuse(f"damaged ({error})")

    @property
    def used(self) -> bool:
        """Whether there are tokens, or were: without the last one nobody enters."""
        return bool(self._run("pragma user_version")[0][0] or self.all())

    def add(self, scopes: Iterable[str], note: str = "") -> str:
        """Create a token and return its secret, which is not stored."""
        chosen = tuple(dict.fromkeys(scopes))
        unknown = [scope for scope in chosen if scope not in SCOPES]
        if unknown or not chosen:
            raise ParameterError(f"scopes are {', '.join(SCOPES)}; got {', '.join(unknown)!r}")
        name, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        values = (name, note, _digest(secret), json.dumps(chosen), time.time())
        self._run(
            "pragma user_version = 1", "insert into tokens values (?, ?, ?, ?, ?)", values=values
        )
        return f"{_PREFIX}{name}.{secret}"

    def all(self) -> list[Token]:
        """Return all tokens."""
        rows = self._run("select id, note, scopes, created from tokens order by created")
        return [self._token(*row) for row in rows]

    def _token(self, name: str, note: str, scopes: str, created: float) -> Token:
        try:
            return Token(name, note, tuple(map(str, json.loads(scopes))), created)
        except (TypeError, ValueError):
            self._refuse(f"damaged (the scopes of {name!r})")

    def remove(self, name: str) -> bool:
        """Remove a token, and return whether there was one."""
        statement = "delete from tokens where id = ? returning id"
        return bool(self._run("pragma user_version = 1", statement, values=(name,)))

    def check(self, text: str) -> Token | None:
        """Return the token with a secret; None if there is none."""
        name, _, secret = text.removeprefix(_PREFIX).partition(".")
        query = "select id, note, scopes, created, digest from tokens where id = ?"
        rows = self._run(query, values=(name,)) if text.startswith(_PREFIX) else []
        # The secret has 256 random bits, so the hash need not be slow.
        digest = rows[0][4] if rows else bytes(32)
        if not hmac.compare_digest(_digest(secret), digest) or not rows:
            return None
        return self._token(*rows[0][:4])


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogateescape")).digest()
