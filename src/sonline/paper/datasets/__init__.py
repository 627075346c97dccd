"""The data sets of the paper by name: read from a folder, or fetched from their publishers.

>>> from sonline.paper import datasets
>>> len(datasets.names())
23
>>> datasets.info("letter").task
'vowels (A, E, I, O, U, Y) against the other letters'

`load` looks for NAME.svm.gz (or .svm, .bz2, .xz) in ``data_dir`` or in the folder that the
environment variable SONLINE_DATA names, then in the cache, and then fetches it. The cache is the
folder that SONLINE_CACHE names, or ``sonline`` in the user's folder for caches.
"""

from __future__ import annotations

import csv
import os
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from sonline.errors import DataFormatError, DownloadError, ParameterError
from sonline.paper.datasets import contents
from sonline.paper.datasets.contents import Floats, fingerprint
from sonline.paper.datasets.convert import FORMS
from sonline.paper.datasets.registry import REGISTRY, Info
from sonline.paper.datasets.transfer import Progress, download

__all__ = [
    "Dataset",
    "DownloadError",
    "Info",
    "cache_dir",
    "fetch",
    "fingerprint",
    "info",
    "load",
    "locate",
    "names",
]

DATA_VARIABLE = "SONLINE_DATA"
CACHE_VARIABLE = "SONLINE_CACHE"
FETCHED = ".svm"
_OTHER_FILES = (EOFError, csv.Error, tarfile.TarError, zlib.error)  # no archives, no tables


@dataclass(frozen=True)
class Dataset:
    """A data set in memory.

    Attributes
    ----------
    info : Info
        What the registry knows of it.
    X : sparse matrix
        The rows, zeros left out.
    y : array
        Labels, -1 and +1.
    labels : array
        Labels as they are in the file.
    path : Path
        The file.
    """

    info: Info
    X: sp.csr_matrix
    y: Floats
    labels: Floats
    path: Path

    def differences(self) -> list[str]:
        """Return a sentence about how the file differs from the registry."""
        rows, width = self.X.shape
        density = self.X.nnz / max(rows, 1)
        differences = []
        if rows != self.info.rows:
            differences.append(f"{rows} rows, expected {self.info.rows}")
        if width > self.info.features:
            differences.append(f"{width} features, expected {self.info.features}")
        if abs(density - self.info.nonzeros) > 0.0051:  # the paper gives two decimals
            differences.append(
                f"{density:.2f} non-zeros in a row, expected {self.info.nonzeros:.2f}"
            )
        if not differences and self.info.fingerprint not in {
            None,
            fingerprint(self.X, self.labels),
        }:
            differences.append("other values than those with which the rates were reproduced")
        return differences


def names() -> list[str]:
    """Return the names of the data sets."""
    return list(REGISTRY)


def info(name: str) -> Info:
    """Return the entry of a data set in the registry."""
    if name not in REGISTRY:
        raise ParameterError(f"no data set is called {name!r}; there are {', '.join(REGISTRY)}")
    return REGISTRY[name]


def cache_dir() -> Path:
    """Return the folder in which fetched data sets are kept."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "sonline"


def locate(name: str, data_dir: str | os.PathLike[str] | None = None) -> Path | None:
    """Return the file of a data set if it is on this machine.

    Parameters
    ----------
    name : str
        Name of the data set.
    data_dir : path, optional
        Folder to look into before the cache; None takes the one that SONLINE_DATA names.
    """
    info(name)
    folder = data_dir or os.environ.get(DATA_VARIABLE) or None
    if folder is not None and not Path(folder).is_dir():
        raise ParameterError(
            f"data_dir: {os.fspath(folder)} is not a folder; name the one that holds the data sets"
        )
    folders = [Path(folder), cache_dir()] if folder is not None else [cache_dir()]
    return next((path for folder in folders if (path := contents.find(folder, name))), None)


def load(
    name: str, data_dir: str | os.PathLike[str] | None = None, *, download: bool = True
) -> Dataset:
    """Read a data set, fetching it first if it is not on this machine.

    Parameters
    ----------
    name : str
        Name of the data set, as in the paper.
    data_dir : path, optional
        Folder with files such as NAME.svm.gz; None takes the one that SONLINE_DATA names. What is
        not there is looked for in the cache.
    download : bool, default=True
        Whether to fetch what is in neither.

    Returns
    -------
    Dataset
        Rows, labels -1 and +1, and where they come from.

    Raises
    ------
    ParameterError
        If there is no such data set or folder.
    DownloadError
        If it is not on this machine and could not be fetched.
    """
    dataset = info(name)
    path = locate(name, data_dir)
    if path is None and not download:
        raise DownloadError(
            f"{name} is neither in data_dir, nor in the folder that {DATA_VARIABLE} names, nor in "
            f"{cache_dir()}; put {name}.svm.gz there or fetch it (sonline datasets fetch {name})"
        )
    path = path or fetch(name)
    X, labels = contents.read(path)
    if not set(np.unique(labels)) <= {-1.0, 0.0, 1.0}:
        X, labels = _kept(dataset, X, labels)
    X = contents.widen(X, dataset.features)
    return Dataset(dataset, X, _signs(dataset, labels, path), labels, path)


def _kept(dataset: Info, X: sp.csr_matrix, labels: Floats) -> tuple[sp.csr_matrix, Floats]:
    if dataset.keep is None:
        return X, labels
    chosen = np.isin(labels, list(dataset.keep))
    return X[chosen], labels[chosen]


def _signs(dataset: Info, labels: Floats, path: Path) -> Floats:
    distinct = set(np.unique(labels))
    # A file may hold the binary task already.
    positive = {1.0} if distinct <= {-1.0, 1.0} or distinct <= {0.0, 1.0} else dataset.positive
    y = np.where(np.isin(labels, list(positive)), 1.0, -1.0)
    if np.unique(y).size < 2:
        raise DataFormatError(
            f"labels are {sorted(distinct)[:5]}, of which {dataset.name} needs some that are "
            f"{sorted(positive)} and some that are not ({dataset.task})",
            file=str(path),
        )
    return y


def fetch(
    name: str,
    cache: str | os.PathLike[str] | None = None,
    *,
    mirror: str | None = None,
    progress: Progress | None = None,
) -> Path:
    """Fetch a data set from its publisher into the cache and return its file.

    Parameters
    ----------
    name : str
        Name of the data set.
    cache : path, optional
        Folder to put it into; None takes `cache_dir`.
    mirror : str, optional
        Address of a folder that holds the publisher's files, to be used instead.
    progress : callable, optional
        Called with the address, the bytes so far and the bytes in all.

    Raises
    ------
    DownloadError
        If the files cannot be fetched or do not hold what they should.
    """
    dataset = info(name)
    folder = Path(cache) if cache is not None else cache_dir()
    if path := contents.find(folder, name):
        return path
    raw = folder / "raw" / name
    raw.mkdir(parents=True, exist_ok=True)
    urls = [f"{mirror.rstrip('/')}/{u.rsplit('/', 1)[-1]}" if mirror else u for u in dataset.urls]
    try:
        paths = [download(url, raw, progress) for url in urls] or [raw]
    except DownloadError as error:
        raise DownloadError(
            f"{name}: {error} The data are also at {dataset.page}; name a folder with "
            f"{name}.svm.gz by data_dir or {DATA_VARIABLE}."
        ) from error
    try:
        X, labels = FORMS[dataset.form](paths)
    except OSError as error:
        raise DownloadError(f"{name}: cannot be fetched or read ({error})") from error
    except (LookupError, TypeError, ValueError, *_OTHER_FILES) as error:
        _remove(paths)
        raise DownloadError(
            f"{name}: the files fetched cannot be read ({error}); they are removed: fetch again"
        ) from error
    X, labels = _kept(dataset, X, labels)
    target = folder / f"{name}{FETCHED}"
    differences = Dataset(dataset, X, labels, labels, target).differences()
    if differences:
        _remove(paths)
        raise DownloadError(
            f"{name}: the files fetched hold {'; '.join(differences)}; they are removed: fetch "
            "again, or see whether the publisher has changed them"
        )
    from sklearn.datasets import dump_svmlight_file  # noqa: PLC0415 - a second to import

    part = target.with_name(target.name + ".part")
    dump_svmlight_file(X, labels, str(part), zero_based=False)
    part.replace(target)
    return target


def _remove(paths: list[Path]) -> None:
    for path in paths:
        if path.is_file():
            path.unlink()
