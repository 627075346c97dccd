"""``sonline train --cluster``: the files of a stream trained on Dask, and merged."""

from __future__ import annotations

import copy
import json as jsonlib
import logging
import math
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sonline.cli import INTERRUPTED
from sonline.cli.outputs import check_outputs
from sonline.cli.train import summary
from sonline.distributed.checkpoints import Checkpoints
from sonline.distributed.progress import watching
from sonline.distributed.rounds import Outcome, Task, train_rounds
from sonline.distributed.shards import Figures, Shard, moved_bytes
from sonline.errors import DataFormatError, DivergenceError, ParameterError
from sonline.live import LastingConsole
from sonline.model import Model
from sonline.streams.sources import STDIN, expand, fingerprint, is_remote
from sonline.training import ENDING, Settings, Training

if TYPE_CHECKING:
    from distributed import Client

LOCAL = re.compile(r"local(?::(\d+))?")
SCHEDULER = re.compile(r"(tcp|tls|ws|wss|ucx)://.+")
LOCAL_CLUSTER = {
    # The successor of a worker that died may take so long to start. Dask gives it 15 s and then
    # does without: on a busy machine nobody might be left, and the run would wait for ever.
    "distributed.deploy.lost-worker-timeout": "1h",
    # All files are handed out at once, neighbours to one worker: it merges them without a message,
    # while others merge theirs. Dask's rule, a few tasks at a time, saves memory where tasks load
    # data; these read files bit by bit.
    "distributed.scheduler.worker-saturation": "inf",
    # Each of them counts as suspicious when its worker dies, begun or not, and Dask gives up one
    # that has been so four times. So many deaths say something about the files, fewer do not.
    "distributed.scheduler.allowed-failures": 20,
}


def train_on_cluster(settings: Settings, cluster: str, *, json: bool, quiet: bool) -> None:
    """Train, save, and say what came out."""
    begun = time.monotonic()
    _check(settings, cluster)
    files = expand(settings.data)
    if STDIN in files:
        raise ParameterError("--cluster needs files that the workers can read, not standard input")
    console = LastingConsole()
    silent = quiet or (json and not console.is_terminal)
    start, description = _begin(settings, files[0])
    on_worker = replace(settings, passes=1, checkpoint=None, every_seconds=0.0, resume=False)
    tasks = [
        Task(place, name, train_file, (place, _reachable(name), on_worker))
        for place, name in enumerate(files)
    ]
    kept = None
    if settings.checkpoint is not None:
        kept = Checkpoints(
            settings.checkpoint, Model, _description(settings, start, files), settings.resume
        )
    for one in ENDING:
        if signal.getsignal(one) is not signal.SIG_IGN:
            signal.signal(one, signal.default_int_handler)
    try:
        with client_of(cluster) as client, watching(not silent, len(files), console) as watch:
            from sonline.distributed.dask.engine import DaskEngine  # noqa: PLC0415 - an extra

            outcome = train_rounds(
                DaskEngine(client),
                tasks,
                start,
                continuing=settings.initial is not None,
                rounds=settings.passes,
                checkpoints=kept,
                watch=watch,
            )
    except KeyboardInterrupt:
        where = f"finished files are kept in {settings.checkpoint}: repeat it with --resume"
        left = "nothing is kept without --checkpoint" if kept is None else where
        sys.stderr.write(f"interrupted; {left}\n")
        raise typer.Exit(INTERRUPTED) from None
    if settings.output is not None:
        outcome.model.save(settings.output)
    if settings.bad_rows is not None:
        text = "".join(one.bad for one in outcome.rounds[0].figures)
        settings.bad_rows.write_text(text, encoding="utf-8", errors="surrogateescape")
    result = report(settings, outcome, description, time.monotonic() - begun)
    if json:
        typer.echo(jsonlib.dumps(result, indent=1))
    elif not quiet:
        typer.echo(f"{summary(result)}\n{workers_table(result)}")


def train_file(model: Model, place: int, name: str, settings: Settings) -> Shard:
    """Let a copy of a model learn a file: what a worker does."""
    from sonline.distributed.dask.engine import worker_name  # noqa: PLC0415 - an extra

    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="sonline-") as folder:
        bad = None if settings.bad_rows is None else Path(folder, "bad")
        run = Training(
            replace(settings, data=[name], bad_rows=bad, initial=None),
            model=copy.deepcopy(model),
        )
        try:
            trained = run.run()
        except DataFormatError as error:
            raise DataFormatError(
                f"partition {place}: {error.message}",
                file=error.file,
                line=error.line,
                column=error.column,
                text=error.text,
            ) from None
        except DivergenceError as error:
            raise DivergenceError(f"partition {place}, {name}: {error}") from None
        kept = "" if bad is None else bad.read_text(encoding="utf-8", errors="surrogateescape")
    made, held, numbers = run.progress, run.held, trained.table is None
    figures = Figures(
        place,
        name,
        worker_name(),
        rows=run.rows,
        skipped=run.skipped,
        weight=made.loss.weight,
        loss=made.loss.total,
        wrong=math.nan if numbers else made.error.total,
        held_weight=held.loss.weight,
        held_loss=held.loss.total,
        held_wrong=math.nan if numbers else held.error.total,
        seconds=time.perf_counter() - begun,
        bytes=moved_bytes(trained),
        bad=kept,
    )
    return Shard(trained if run.rows else None, [figures])


def _begin(settings: Settings, first: str) -> tuple[Model, str]:
    if settings.initial is not None:
        return Model.load(settings.initial), ""
    return Training(replace(settings, data=[first])).look()


def _check(settings: Settings, cluster: str) -> None:
    refused = {
        "--predictions": (
            settings.predictions is not None,
            "they would be those of single files' models; 'sonline predict' asks the merged one",
        ),
        "--limit": (
            settings.limit is not None,
            "the files are read at the same time, so no rows are the first; name fewer files",
        ),
        "--shuffle": (settings.shuffle > 0, "each file is read in its order; shuffle the files"),
        "--validation": (bool(settings.validation), "use 'sonline evaluate' on the merged model"),
        "--checkpoint-every": (
            settings.every_rows > 0,
            "each file is kept when it is finished; leave it out",
        ),
    }
    for option, (used, why) in refused.items():
        if used:
            raise ParameterError(f"{option} cannot be used with --cluster: {why}")
    if settings.resume and settings.checkpoint is None:
        raise ParameterError("--resume with --cluster needs --checkpoint FOLDER")
    if not LOCAL.fullmatch(cluster) and not SCHEDULER.fullmatch(cluster):
        raise ParameterError(
            f"--cluster must be the address of a Dask scheduler such as tcp://host:8786, or "
            f"local or local:N for N processes here; got {cluster!r}"
        )
    check_outputs(settings.data, output=settings.output, bad_rows=settings.bad_rows)
    folder = settings.checkpoint
    if folder is not None and not folder.absolute().parent.is_dir():
        raise ParameterError(f"{folder}: there is no folder {folder.absolute().parent}; make it")


def _description(settings: Settings, start: Model, files: list[str]) -> dict[str, Any]:
    """Return what must be the same for results of an earlier run to be used."""
    return {
        "parameters": start.parameters.as_dict(),
        "files": files,
        "contents": [fingerprint(name) for name in files],
        "passes": settings.passes,
        "holdout": settings.holdout,
        "stream": settings.stream,
        "classes": settings.classes,
        "from": None if settings.initial is None else str(settings.initial),
    }


def _reachable(name: str) -> str:
    """Return a name that means the same in the folder of a worker."""
    return name if is_remote(name) else os.path.abspath(name)  # noqa: PTH100 - links stay


@contextmanager
def client_of(cluster: str) -> Iterator[Client]:
    """Connect to a scheduler, or start a cluster on this machine (``local``, ``local:4``)."""
    try:
        import dask  # noqa: PLC0415 - an extra
        from distributed import Client, LocalCluster  # noqa: PLC0415
    except ImportError as error:
        raise ParameterError("--cluster needs Dask: pip install 'sonline[dask]'") from error
    found = LOCAL.fullmatch(cluster)
    if found is None:
        with Client(cluster) as client:
            yield client
        return
    count = int(found[1]) if found[1] else os.cpu_count() or 1
    if count < 1:
        raise ParameterError(f"--cluster {cluster}: at least one worker is needed")
    with (
        dask.config.set(LOCAL_CLUSTER),
        LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # any free port
            silence_logs=logging.CRITICAL,
        ) as local,
        Client(local) as client,
    ):
        client.register_worker_callbacks(_leave_interrupts_to_the_driver)
        yield client


def _leave_interrupts_to_the_driver() -> None:
    """Ctrl-C reaches all processes of a terminal; a worker would show it with a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def report(
    settings: Settings, outcome: Outcome, description: str, seconds: float
) -> dict[str, Any]:
    """Return the result as values that JSON can hold."""
    model: Model = outcome.model
    stats = model.stats()
    passes = []
    for shard in outcome.rounds:
        one = {"loss": shard.loss, "error": shard.error}
        if settings.holdout:
            one |= {"holdout_loss": shard.held_loss, "holdout_error": shard.held_error}
        shown = {k: v for k, v in one.items() if model.table is not None or "error" not in k}
        passes.append({"rows": int(shard.total("rows")), **shown})
    every = [one for shard in outcome.rounds for one in shard.figures]
    return {
        "model": None if settings.output is None else str(settings.output),
        "input": description,
        "task": model.task,
        "classes": [] if model.table is None else model.table.sorted_labels(),
        "partitions": len(outcome.rounds[-1].figures),
        "rows": sum(one.rows for one in every),
        "skipped": sum(one.skipped for one in every),
        "passes": passes,
        "loss_name": model.parameters.loss,
        **{k: v for k, v in passes[-1].items() if k != "rows"},
        "workers": _workers(every),
        "features": stats["features"],
        "sweeps": stats["sweeps"],
        "model_bytes": stats["bytes"],
        "seconds": round(seconds, 3),
    }


def _workers(every: list[Figures]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in every:
        name = "checkpoints" if one.resumed else one.worker
        own = found.setdefault(
            name, {"worker": name, "partitions": 0, "rows": 0, "seconds": 0.0, "bytes": 0}
        )
        own["partitions"] += 1
        own["rows"] += one.rows
        own["seconds"] = round(own["seconds"] + one.seconds, 3)
        own["bytes"] += one.bytes
    return [found[name] for name in sorted(found)]


def workers_table(result: dict[str, Any]) -> str:
    """Return what each worker did, for people."""
    lines = [f"{'worker':<16}{'partitions':>10}{'rows':>14}{'seconds':>10}{'model bytes':>14}"]
    lines += [
        f"{own['worker'][:15]:<16}{own['partitions']:>10}{own['rows']:>14,}{own['seconds']:>10.2f}"
        f"{own['bytes']:>14,}"
        for own in result["workers"]
    ]
    return "\n".join(lines)
