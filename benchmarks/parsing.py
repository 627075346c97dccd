"""Parsing: text in memory (a file, for Vowpal Wabbit) to arrays, nothing learned."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from benchmarks import data, limit, peers
from benchmarks.data import Rows
from benchmarks.measure import Contender, Result, Run, take_turns, timed
from benchmarks.settings import Settings
from sonline import _core

SECTION = "parsing"
NANO = 1e-9
CHUNK = 1 << 18
STYLES = {"6 digits": "{}:{:.6f}", "17 digits": "{}:{:.17g}", "ones": "{}:1"}
BATCHES = "sonline, CSR batches"
MATRIX = "sonline, one CSR matrix"
SCAN = "limit: look at every byte"
SKLEARN = "scikit-learn load_svmlight_file"
VW = "vw --noop (its own text format)"


def measure(settings: Settings) -> Iterator[Result]:
    rows = data.generated(data.MAIN, settings.size(20_000))
    for style, form in STYLES.items():
        svmlight, vw = data.texts(rows, form)
        yield from one_text(f"svmlight, {style}", svmlight, vw, rows, settings)
    for real in data.real(settings.data_dir):
        svmlight, vw = data.texts(real)
        yield from one_text(f"svmlight, {real.name}", svmlight, vw, real, settings)
    yield from named_features(rows, settings)


def one_text(
    case: str, svmlight: bytes, vw: bytes, rows: Rows, settings: Settings
) -> Iterator[Result]:
    count = rows.X.nnz

    def load() -> None:
        from sklearn.datasets import load_svmlight_file  # noqa: PLC0415

        load_svmlight_file(io.BytesIO(svmlight))

    contenders = [
        Contender(BATCHES, timed(lambda: list(batches(svmlight, "svmlight", "index"))), count),
        Contender(MATRIX, timed(lambda: matrix(svmlight)), count),
        Contender(SKLEARN, timed(load), count, peer=True),
        *vw_parser(vw, count, settings),
        Contender(SCAN, limit.scan_bytes(svmlight), count, about={"limit": True}),
    ]
    yield from turns(case, contenders, settings, megabytes=len(svmlight) / 1e6)


def named_features(rows: Rows, settings: Settings) -> Iterator[Result]:
    """Vowpal Wabbit's format with names, which have to be hashed or kept."""
    _, text = data.texts(rows, "f{}:{:.6f}")
    count = rows.X.nnz
    contenders = [
        Contender("sonline, names hashed", parser(text, "hash"), count),
        Contender("sonline, exact names", parser(text, "name"), count),
        *vw_parser(text, count, settings),
        Contender(SCAN, limit.scan_bytes(text), count, about={"limit": True}),
    ]
    yield from turns("Vowpal Wabbit text, names", contenders, settings, megabytes=len(text) / 1e6)


def turns(
    case: str, contenders: list[Contender], settings: Settings, **about: object
) -> Iterator[Result]:
    yield from take_turns(
        SECTION, case, "ns per feature", contenders, settings.rounds, seconds=NANO, cores=1, **about
    )


def parser(text: bytes, features: str) -> Run:
    return timed(lambda: list(batches(text, "vw", features)))


def batches(text: bytes, form: str, features: str) -> Iterator[_core.TextBatch]:
    """Parse as the library does, in chunks that stay in the cache."""
    parser = _core.TextParser(form, features=features)
    view = memoryview(text)
    for start in range(0, len(text), CHUNK):
        yield parser.feed(view[start : start + CHUNK])
    yield parser.end_file()


def matrix(text: bytes) -> sp.csr_matrix:
    """Return one matrix of all the rows, as scikit-learn's function does."""
    parsed = list(batches(text, "svmlight", "index"))
    lengths = np.concatenate([np.diff(batch.indptr) for batch in parsed])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    values = np.concatenate([batch.values for batch in parsed])
    indices = np.concatenate([batch.indices for batch in parsed])
    return sp.csr_matrix((values, indices, indptr))


def vw_parser(text: bytes, count: int, settings: Settings) -> list[Contender]:
    if peers.Workspace is None:
        return []
    path = settings.folder / "rows.vw"
    path.write_bytes(text)
    return [Contender(VW, lambda: peers.vw_seconds(f"-d {path} --noop -b 18"), count, peer=True)]
