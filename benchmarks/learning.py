"""Learning: nanoseconds per non-zero, one pass over rows in memory, beside the peers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks import data, limit, peers
from benchmarks.data import Rows, Shape
from benchmarks.learners import ADAGRAD, DEFAULT, FD, ISOTROPIC, NONE, OJA, RFD, Learner
from benchmarks.measure import Contender, Result, take_turns
from benchmarks.settings import Settings

SECTION = "learning"
UNIT = "ns per non-zero"
NANO = 1e-9
NONZEROS = 960_000  # in a generated case
SIZES = (1, 2, 5, 10, 14, 20, 30, 40)
VW_SIZES = (0, 5, 10, 20, 30, 40)
SKETCHED = ("oja", "isotropic", "fd", "rfd")
LIMIT = "limit: read and write back the blocks of m = {}"
BASIC = [NONE, ADAGRAD, OJA, Learner("oja", 30), ISOTROPIC, FD, RFD, DEFAULT]
VW = ["", peers.vw_oja(10)]
VW_MAIN = [*VW, peers.vw_oja(0), peers.vw_oja(30)]  # a large sketch takes it seconds a round


def measure(settings: Settings) -> Iterator[Result]:
    for shape in data.GENERATED:
        rows = data.generated(shape, settings.size(NONZEROS) // shape.nonzeros)
        yield from one_case(rows, settings, **shape.about)
    for rows in data.real(settings.data_dir):
        yield from one_case(rows, settings, features=rows.features)


def measure_lines(settings: Settings) -> Iterator[Result]:
    """Time against one quantity after the other, for the plots and their fits."""
    yield from against_sizes(settings)
    yield from against_nonzeros(settings)
    yield from against_features(settings)
    yield from against_rows(settings)


def against_sizes(settings: Settings) -> Iterator[Result]:
    """Sketches of more and more directions, on rows whose features have been seen."""
    rows = data.generated(data.MAIN, settings.size(5_000))
    contenders = []
    for m in (1, 10, 30) if settings.quick else SIZES:
        contenders += [Learner(sketch, m).after(rows, rows) for sketch in SKETCHED]
        contenders.append(block_limit(Learner("oja", m), rows))
    sizes = (10, 30) if settings.quick else VW_SIZES
    arguments = [peers.vw_oja(m) for m in sizes]
    contenders += peers.vw_contenders(rows, arguments, settings.folder / "cache")
    about = {**data.MAIN.about, "against": "size", "rows": rows.X.shape[0]}
    yield from turns("against m", contenders, settings, rounds=3, **about)


def one_case(rows: Rows, settings: Settings, **about: Any) -> Iterator[Result]:
    """Everyone on the same rows (River on the first few, which are enough for it)."""
    main = rows.name == data.MAIN.name
    few = rows.head(max(20_000 * rows.X.shape[0] // rows.X.nnz, 10))
    contenders = [
        *(learner.epoch(rows) for learner in BASIC),
        *peers.vw_contenders(rows, VW_MAIN if main else VW, settings.folder / "cache"),
        peers.sgd_epoch(rows),
        *peers.river_epoch(few),
        block_limit(OJA, rows),
    ]
    rounds = settings.rounds if main else 3
    about["rows"] = rows.X.shape[0]
    yield from turns(rows.name, contenders, settings, rounds=rounds, **about)


def block_limit(learner: Learner, rows: Rows) -> Contender:
    run, floats = limit.touch_blocks(learner.new(), rows)
    about = {"size": learner.size, "floats": floats, "limit": True}
    return Contender(LIMIT.format(learner.size), run, rows.X.nnz, about=about)


def turns(
    case: str,
    contenders: list[Contender],
    settings: Settings,
    *,
    rounds: int | None = None,
    **about: Any,
) -> Iterator[Result]:
    times = min(rounds or settings.rounds, settings.rounds)
    yield from take_turns(SECTION, case, UNIT, contenders, times, seconds=NANO, cores=1, **about)


SCALING = [NONE, ADAGRAD, OJA, ISOTROPIC]


def against_nonzeros(settings: Settings) -> Iterator[Result]:
    """Rows of more and more non-zeros: a straight line is expected, in time per row."""
    for count in settings.some((8, 32, 64, 128, 256, 500, 1000)):
        shape = Shape(count, 50_000)
        rows = data.generated(shape, max(settings.size(NONZEROS // 2) // count, 200))
        contenders = [
            *(learner.epoch(rows) for learner in SCALING),
            *peers.vw_contenders(rows, [peers.vw_oja(10)], settings.folder / "cache"),
        ]
        about = {"against": "nonzeros", "rows": rows.X.shape[0], **shape.about}
        yield from turns(f"against non-zeros: {count}", contenders, settings, rounds=3, **about)


def against_features(settings: Settings) -> Iterator[Result]:
    """More and more features, all seen before: only the caches may tell."""
    every = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
    for features in every[:3] if settings.quick else every:
        shape = Shape(64, features)
        rows = data.generated(shape, settings.size(NONZEROS // 2) // 64)
        zipf = data.generated(Shape(64, features, zipf=True), settings.size(NONZEROS // 2) // 64)
        warm = data.every_feature(features)
        contenders = [learner.after(warm, rows) for learner in SCALING]
        about = {"against": "features", "rows": rows.X.shape[0], **shape.about}
        case = f"against features: {features:,}"
        yield from turns(case, contenders, settings, rounds=3, **about)
        contenders = [OJA.after(warm, zipf)]
        about["zipf"] = True
        yield from turns(f"{case}, Zipf", contenders, settings, rounds=3, **about)
        data.generated.cache_clear()
        data.every_feature.cache_clear()


def against_rows(settings: Settings) -> Iterator[Result]:
    """Longer and longer streams: a straight line is expected, in time for all of it."""
    every = data.generated(data.MAIN, settings.size(200_000))
    for share in settings.some((1, 2, 5, 10, 20, 50, 100, 200)):
        rows = every.head(every.X.shape[0] * share // 200)
        contenders = [learner.epoch(rows) for learner in SCALING]
        about = {"against": "rows", **data.MAIN.about, "rows": rows.X.shape[0]}
        yield from turns(
            f"against rows: {rows.X.shape[0]:,}", contenders, settings, rounds=3, **about
        )
    data.generated.cache_clear()
