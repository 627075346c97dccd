"""``sonline train --cluster``: the files of a stream trained on Dask, and merged."""

from __future__ import annotations

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
from sonline.cli.train import result_of, summary
from sonline.distributed.checkpoints import Checkpoints
from sonline.distributed.partition import train_part
from sonline.distributed.rounds import Task, train_rounds
from sonline.distributed.shards import Figures, Shard
from sonline.distributed.watching import watching
from sonline.errors import ParameterError, require
from sonline.evaluate import Progress
from sonline.live import LastingConsole
from sonline.model import Model
from sonline.streams.sources import STDIN, expand, fingerprint, is_remote
from sonline.training import ENDING, RunSettings, Training

if TYPE_CHECKING:
    from distributed import Client

LOCAL = re.compile(r"local(?::(\d+))?")
SCHEDULER = re.compile(r"(tcp|tls|ws|wss|ucx)://.+")
LOCAL_CLUSTER = {
    # A worker that replaces a dead one may take this long to start. Dask's default is 15 s; on a
    # busy machine no worker might be left then, and the run would wait for ever.
    "distributed.deploy.lost-worker-timeout": "1h",
    # Hand out all files at once: a worker gets neighbouring files, and merges their models without
    # a transfer. Dask's default, a few tasks at a time, saves memory where tasks load data; these
    # read files in small batches.
    "distributed.scheduler.worker-saturation": "inf",
    # When a worker dies, all of its tasks count as suspicious, started or not. By default Dask
    # gives a task up at the fourth death, which says little about the file.
    "distributed.scheduler.allowed-failures": 20,
}


def train_on_cluster(settings: RunSettings, cluster: str, *, json: bool, quiet: bool) -> None:
    """Train on a cluster, save the model and report."""
    started = time.monotonic()
    _check(settings, cluster)
    files = expand(settings.data)
    if STDIN in files:
        raise ParameterError("--cluster needs files that the workers can read, not standard input")
    console = LastingConsole()
    silent = quiet or (json and not console.is_terminal)
    start, description = _start(settings, files[0])
    on_worker = replace(settings, passes=1, checkpoint=None, every_seconds=0.0, resume=False)
    tasks = [
        Task(number, name, train_file, (number, _reachable(name), on_worker))
        for number, name in enumerate(files)
    ]
    checkpoints = None
    if settings.checkpoint is not None:
        checkpoints = Checkpoints(
            settings.checkpoint, Model, _description(settings, start, files), settings.resume
        )
    for sig in ENDING:
        if signal.getsignal(sig) is not signal.SIG_IGN:
            signal.signal(sig, signal.default_int_handler)
    try:
        with client_of(cluster) as client, watching(not silent, len(files), console) as watch:
            from sonline.distributed.dask.runner import DaskRunner  # noqa: PLC0415 - an extra

            rounds = train_rounds(
                DaskRunner(client),
                tasks,
                start,
                continuing=settings.initial is not None,
                rounds=settings.passes,
                checkpoints=checkpoints,
                watch=watch,
            )
    except KeyboardInterrupt:
        where = (
            f"finished files are saved in {settings.checkpoint}: repeat the command with --resume"
        )
        left = "nothing is saved without --checkpoint" if checkpoints is None else where
        sys.stderr.write(f"interrupted; {left}\n")
        raise typer.Exit(INTERRUPTED) from None
    if settings.output is not None:
        rounds[-1].model.save(settings.output)
    if settings.bad_rows is not None:
        text = "".join(part.bad for part in rounds[0].figures)
        settings.bad_rows.write_text(text, encoding="utf-8", errors="surrogateescape")
    result = report(settings, rounds, description, time.monotonic() - started)
    if json:
        typer.echo(jsonlib.dumps(result, indent=1))
    elif not quiet:
        typer.echo(f"{summary(result)}\n{workers_table(result)}")


def train_file(model: Model, number: int, name: str, settings: RunSettings) -> Shard:
    """Train a copy of the model on one file, on a worker."""
    from sonline.distributed.dask.runner import worker_name  # noqa: PLC0415 - an extra

    figures = Figures(number, name, worker_name())

    def learn(copied: Model) -> Model:
        with tempfile.TemporaryDirectory(prefix="sonline-") as folder:
            bad = None if settings.bad_rows is None else Path(folder, "bad")
            on_file = replace(settings, data=[name], bad_rows=bad, initial=None)
            run = Training(on_file, model=copied)
            trained = run.run()
            if bad is not None:
                figures.bad = bad.read_text(encoding="utf-8", errors="surrogateescape")
        figures.rows, figures.skipped = run.rows, run.skipped
        figures.held_weight, figures.held_loss = run.held.loss.weight, run.held.loss.total
        figures.held_wrong = run.held.error.total if trained.table is not None else math.nan
        return trained

    # A run measures its own rows only.
    return train_part(model, figures, learn, before=Progress())


def _start(settings: RunSettings, first: str) -> tuple[Model, str]:
    """Return the model to start from, and a sentence about the input."""
    if settings.initial is not None:
        return Model.load(settings.initial), ""
    return Training(replace(settings, data=[first])).look()


def _check(settings: RunSettings, cluster: str) -> None:
    refused = {
        "--predictions": (
            settings.predictions is not None,
            "each file trains its own model; use 'sonline predict' with the merged one",
        ),
        "--limit": (
            settings.limit is not None,
            "files are read in parallel, so there are no first rows; name fewer files",
        ),
        "--shuffle": (settings.shuffle > 0, "each file is read in order; shuffle its rows before"),
        "--validation": (bool(settings.validation), "use 'sonline evaluate' on the merged model"),
        "--checkpoint-every": (
            settings.every_rows > 0,
            "a checkpoint is written when a file is finished; leave it out",
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


def _description(settings: RunSettings, start: Model, files: list[str]) -> dict[str, Any]:
    """Return the settings that a resumed run must share."""
    return {
        "parameters": start.parameters.as_dict(),
        "files": files,
        "contents": [fingerprint(name) for name in files],
        "passes": settings.passes,
        "holdout": settings.holdout,
        "stream": settings.stream.chosen(),
        "classes": settings.classes,
        "from": None if settings.initial is None else str(settings.initial),
    }


def _reachable(name: str) -> str:
    """Return a name that is valid in the working folder of a worker."""
    return name if is_remote(name) else os.path.abspath(name)  # noqa: PTH100 - links stay


@contextmanager
def client_of(cluster: str) -> Iterator[Client]:
    """Connect to a scheduler, or start a cluster on this machine (``local``, ``local:4``)."""
    require("distributed", "dask")
    import dask  # noqa: PLC0415 - an extra
    from distributed import Client, LocalCluster  # noqa: PLC0415

    local_name = LOCAL.fullmatch(cluster)
    if local_name is None:
        with Client(cluster) as client:
            yield client
        return
    count = int(local_name[1]) if local_name[1] else os.cpu_count() or 1
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
        client.register_worker_callbacks(_ignore_interrupts)
        yield client


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C, which reaches all processes of a terminal: workers would show tracebacks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def report(
    settings: RunSettings, rounds: list[Shard], description: str, seconds: float
) -> dict[str, Any]:
    """Return the result as values that JSON can hold."""
    model: Model = rounds[-1].model
    passes = []
    for shard in rounds:
        measures = {"loss": shard.loss, "error": shard.error}
        if settings.holdout:
            measures |= {"holdout_loss": shard.held_loss, "holdout_error": shard.held_error}
        shown = {k: v for k, v in measures.items() if model.table is not None or "error" not in k}
        passes.append({"rows": int(shard.total("rows")), **shown})
    figures = [part for shard in rounds for part in shard.figures]
    return result_of(
        settings,
        model,
        passes,
        seconds,
        input=description,
        partitions=len(rounds[-1].figures),
        rows=sum(part.rows for part in figures),
        skipped=sum(part.skipped for part in figures),
        workers=_workers(figures),
    )


def _workers(figures: list[Figures]) -> list[dict[str, Any]]:
    workers: dict[str, dict[str, Any]] = {}
    for part in figures:
        name = "checkpoints" if part.resumed else part.worker
        worker = workers.setdefault(
            name, {"worker": name, "partitions": 0, "rows": 0, "seconds": 0.0, "bytes": 0}
        )
        worker["partitions"] += 1
        worker["rows"] += part.rows
        worker["seconds"] = round(worker["seconds"] + part.seconds, 3)
        worker["bytes"] += part.bytes
    return [workers[name] for name in sorted(workers)]


def workers_table(result: dict[str, Any]) -> str:
    """Return a table of the work of each worker."""
    lines = [f"{'worker':<16}{'partitions':>10}{'rows':>14}{'seconds':>10}{'model bytes':>14}"]
    lines += [
        f"{worker['worker'][:15]:<16}{worker['partitions']:>10}{worker['rows']:>14,}"
        f"{worker['seconds']:>10.2f}{worker['bytes']:>14,}"
        for worker in result["workers"]
    ]
    return "\n".join(lines)
