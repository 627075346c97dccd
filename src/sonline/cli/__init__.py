"""The command line, ``sonline COMMAND``.

A command is a file of this package that holds ``app = command_app()`` (several commands in one
``app`` become a group), and one line in `COMMANDS`. The file is imported when its command is
called, so ``sonline --help`` is fast. Commands about the paper are in
`sonline.paper.commands`.

Commands raise the errors of `sonline.errors`; `main` turns them into one line on standard error
and an exit code.
"""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import sys
import warnings
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from sonline.cli.values import convert_plainly
from sonline.errors import (
    DivergenceError,
    MissingPackageError,
    ModelFileError,
    ParameterError,
    SonlineError,
)

COMMANDS = {
    "train": "Train a model on files or streams: svmlight, Vowpal Wabbit text or tables.",
    "predict": "Predict rows with a model, one line per row.",
    "explain": "Show what each feature adds to the prediction of each row.",
    "evaluate": "Evaluate a model on labelled rows: loss, error, AUC, F1, confusion matrix, RMSE.",
    "merge": "Merge models that were trained on different rows with the same parameters.",
    "inspect": "Show the parameters, counters, spectrum and largest weights of a model.",
    "export": "Write a model as ONNX, for other runtimes.",
    "convert": "Convert rows between svmlight, Vowpal Wabbit text, JSON lines and tables.",
    "vw": "Train and predict with the common options of Vowpal Wabbit.",
    "serve": "Serve models over HTTP: predict, train when labels arrive, and watch a live page.",
    "token": "Create, list and remove the tokens of a service.",
    "client": "Send rows to a service for training or prediction.",
    "demo": "Compare gradient descent, AdaGrad and two sketches on an ill-conditioned stream.",
    "datasets": "List the paper's data sets, or download them from their publishers.",
    "reproduce": "Run the paper's experiments and write CSV, PNG, SVG and an HTML report.",
}
OF_THE_PAPER = ("demo", "datasets", "reproduce")

FEW_COLLECTIONS = (50_000, 20, 20)  # thresholds of gc: most imported objects stay

FAILED = 1
WRONG_USAGE = 2
BAD_INPUT = 3
BAD_MODEL = 4
DIVERGED = 5
SIGNALLED = 128  # and the number of the signal
INTERRUPTED = SIGNALLED + signal.SIGINT

EXIT_CODES = {
    0: "success",
    FAILED: "any other error",
    WRONG_USAGE: "a wrong command, option or parameter",
    BAD_INPUT: "a file that cannot be read or written, or bad data",
    BAD_MODEL: "a model file that is damaged, too new or not a model",
    DIVERGED: "the weights overflowed",
    INTERRUPTED: "interrupted by Ctrl-C (129: SIGHUP, 143: SIGTERM)",
}


class LazyGroup(typer.core.TyperGroup):
    """A group that knows its commands by name and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for name, summary in COMMANDS.items():
            self.add_command(typer.core.TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Import the command that the arguments name; return it with the remaining arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            package = "sonline.paper.commands" if name in OF_THE_PAPER else __name__
            module = import_module(f"{package}.{name.replace('-', '_')}")
            command = typer.main.get_command(module.app)
            command.name = name
            command.help = command.help or COMMANDS[name]  # a group has no docstring
            for subcommand in getattr(command, "commands", {name: command}).values():
                for option in subcommand.params:
                    if getattr(option, "is_flag", False):
                        option.metavar = ""  # the help shows no value: a flag takes none
        return name, command, rest


_EPILOG = "Exit codes: " + "; ".join(f"{code} {what}" for code, what in EXIT_CODES.items()) + "."


def command_app() -> typer.Typer:
    """Return a new ``app`` for the file of a command, with the settings that all of them share."""
    return typer.Typer(add_completion=False, rich_markup_mode="markdown")


app = typer.Typer(
    cls=LazyGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # developers get the plain traceback, in full
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        import sonline  # noqa: PLC0415 - the version is looked up when it is asked for

        typer.echo(f"sonline {sonline.__version__}")
        raise typer.Exit


@app.callback()
def _sonline(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            help="Show the version.",
            metavar="",
        ),
    ] = False,
) -> None:
    """Train linear models on files and streams that may be larger than memory.

    Example: sonline train clicks.csv --label click -o clicks.son
    """


def main() -> None:
    """Run the command line; leave with one of `EXIT_CODES`."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names that ASCII cannot hold are written \\u...
            stream.reconfigure(errors="backslashreplace")
    gc.set_threshold(*FEW_COLLECTIONS)
    convert_plainly()
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    if {"-q", "--quiet"} & set(sys.argv):
        warnings.simplefilter("ignore")
    discarded = _is_discarded(sys.stdout)
    try:
        if not _wants_json():
            app(prog_name="sonline")
        sys.exit(app(prog_name="sonline", standalone_mode=False))
    except SystemExit as left:
        if left.code == FAILED and _is_discarded(sys.stdout) and not discarded:
            sys.exit(0)  # the reader of the help closed the pipe
        raise
    except (SonlineError, OSError) as error:
        _report(_message(error), type(error).__name__, exit_code(error))
        sys.exit(exit_code(error))
    except Exception as error:
        if not hasattr(error, "format_message"):  # Typer's own, about the command's usage
            raise
        _report(error.format_message(), "ParameterError", WRONG_USAGE)
        sys.exit(WRONG_USAGE)


def _open_closed_streams() -> None:
    """Open /dev/null in place of closed streams (>&-), so that no other file gets their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _wants_json() -> bool:
    """Return whether errors are printed as JSON; for vw, --json is a format of the input."""
    return "--json" in sys.argv and "vw" not in sys.argv[1:2]


def _message(error: Exception) -> str:
    """Return the text of an error; errors of the system without their number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _report(message: str, kind: str, code: int) -> None:
    """Write an error to standard error; with --json as an object, for machines."""
    if _wants_json():
        report = {"error": {"type": kind, "message": message, "exit_code": code}}
        sys.stderr.write(f"{json.dumps(report)}\n")
    else:
        sys.stderr.write(f"sonline: {message}\n")


def _is_discarded(stream: Any) -> bool:
    """Return whether a stream is /dev/null, as it is after a broken pipe."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(os.devnull))  # noqa: PTH116
    except (OSError, ValueError):
        return False


def exit_code(error: Exception) -> int:
    """Return the exit code of an error.

    Examples
    --------
    >>> from sonline.cli import exit_code
    >>> exit_code(FileNotFoundError("no such file"))
    3
    """
    if isinstance(error, (ParameterError, MissingPackageError)):
        return WRONG_USAGE
    if isinstance(error, ModelFileError):
        return BAD_MODEL
    if isinstance(error, DivergenceError):
        return DIVERGED
    return BAD_INPUT if isinstance(error, (ValueError, OSError)) else FAILED
