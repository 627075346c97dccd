"""Downloads that resume after an interruption."""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlsplit

from sonline.errors import DownloadError

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""Called with the file, the bytes so far and the bytes in all (None if unknown)."""

ATTEMPTS = 3
TIMEOUT_SECONDS = 60
BLOCK = 1 << 16


def download(url: str, folder: Path, progress: Progress | None = None) -> Path:
    """Fetch a file into a folder, unless it is there, and return its path.

    After an interruption NAME.part has the first bytes, and only the rest is fetched.

    Raises
    ------
    DownloadError
        If the server cannot be reached, or breaks off repeatedly.
    """
    if urlsplit(url).scheme not in {"http", "https"}:
        raise DownloadError(f"url must begin with http:// or https://, got {url!r}")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / Path(urlsplit(url).path).name
    if not target.exists():
        part = target.with_name(target.name + ".part")
        for attempt in range(ATTEMPTS):
            try:
                _continue(url, part, progress)
                break
            except urllib.error.HTTPError as error:
                raise DownloadError(
                    f"{url}: the server answered {error.code} {error.reason}"
                ) from error
            except (OSError, http.client.HTTPException) as error:
                if attempt == ATTEMPTS - 1:
                    raise DownloadError(_offline(url, part, error)) from error
                time.sleep(attempt)
        part.replace(target)
        part.with_name(part.name + ".etag").unlink(missing_ok=True)
    return target


def _continue(url: str, part: Path, progress: Progress | None) -> None:
    """Append the missing part of the file to ``part``."""
    etag_file = part.with_name(part.name + ".etag")
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "sonline"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if etag_file.exists():  # a file that changed meanwhile is sent whole
            headers["If-Range"] = etag_file.read_text()
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the scheme is checked
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)  # noqa: S310
    except urllib.error.HTTPError as error:
        # The part is already whole, or longer than the file: a fresh start settles it.
        if error.code != http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        part.unlink()
        return _continue(url, part, progress)
    with response:
        resumed = response.status == http.client.PARTIAL_CONTENT
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = None if length is None else have + int(length)
        if etag := response.headers.get("ETag"):
            etag_file.write_text(etag)
        with part.open("ab" if resumed else "wb") as file:
            while block := response.read(BLOCK):
                file.write(block)
                have += len(block)
                if progress:
                    progress(url, have, total)
    if total is not None and have != total:
        raise ConnectionError(f"the connection broke after {have} of {total} bytes")
    return None


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _offline(url: str, part: Path, error: Exception) -> str:
    note = (
        f" {part.stat().st_size} bytes are kept: call again to continue." if part.exists() else ""
    )
    return f"cannot fetch {url} ({error}); is this machine offline?{note}"
