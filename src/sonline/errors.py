"""Every error that sonline raises on purpose.

.. code-block:: text

   Exception
   └── SonlineError                    everything below; catch this to catch all of them
       ├── InvalidInputError           also a ValueError: an argument that cannot be used
       │   ├── ParameterError          a parameter of a learner, stream or command
       │   └── DataFormatError         text or a table that cannot be parsed; knows file and line
       ├── ModelFileError              also a ValueError: a damaged, foreign or newer model file
       ├── DivergenceError             also an ArithmeticError: the weights overflowed
       ├── MissingPackageError         also a ModuleNotFoundError: an extra is not installed
       └── DownloadError               also an OSError: a data set could not be fetched

A message names the argument and its value, what was expected, and what to do.
"""

import shlex
from importlib.util import find_spec

__all__ = [
    "DataFormatError",
    "DivergenceError",
    "DownloadError",
    "InvalidInputError",
    "MissingPackageError",
    "ModelFileError",
    "ParameterError",
    "SonlineError",
]


class SonlineError(Exception):
    """Base class of all errors that sonline raises on purpose."""


class InvalidInputError(SonlineError, ValueError):
    """An argument has a value, shape or type that cannot be used.

    Parameters
    ----------
    message : str
        What is wrong and what to do; without the row.
    argument : str, optional
        The argument that holds the row, such as X or y.
    row : int, optional
        Number of the row that is wrong, counted from 0; None if the error is not about one row.
    field : str or int, optional
        The column or feature that is wrong; by default the argument.

    Examples
    --------
    >>> from sonline.errors import InvalidInputError
    >>> error = InvalidInputError("-1 is negative", argument="y", row=3)
    >>> print(error)
    y, row 3: -1 is negative
    >>> error.row, error.field, error.numbered(1)
    (3, 'y', 'y, row 4: -1 is negative')
    """

    def __init__(
        self,
        message: str = "",
        *,
        argument: str = "",
        row: int | None = None,
        field: str | int | None = None,
    ) -> None:
        super().__init__(message)  # all else is in __dict__, which pickle carries, too
        self.message = message
        self.argument = argument
        self.row = row
        self.field = (argument or None) if field is None else field

    def numbered(self, first: int) -> str:
        """Return the message with the number of the row, where the first row has this number."""
        if self.row is None:
            return f"{self.argument}: {self.message}" if self.argument else self.message
        where = f"{self.argument}, row" if self.argument else "row"
        return f"{where} {self.row + first}: {self.message}"

    def __str__(self) -> str:
        return self.numbered(0)


class ParameterError(InvalidInputError):
    """A parameter of a learner, stream or command is unknown or out of its range."""


class DataFormatError(InvalidInputError):
    """Data could not be parsed.

    Parameters
    ----------
    message : str
        What is wrong, what was expected and what to do.
    file : str, optional
        Name of the file or stream, as the caller gave it.
    line : int, optional
        Line of the input, counted from 1.
    column : int, optional
        Character within the line, counted from 1.
    text : str, optional
        The piece of input that could not be parsed.

    Examples
    --------
    >>> from sonline.errors import DataFormatError
    >>> error = DataFormatError(
    ...     "expected index:value", file="train.svm", line=3, column=7, text="x:1"
    ... )
    >>> print(error)
    train.svm:3:7: expected index:value (found 'x:1')
    >>> error.line
    3
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        text: str | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column
        self.text = text

    def numbered(self, first: int) -> str:
        """Return the message with the location, whose lines are always counted from 1."""
        location = self._location()
        quoted = "" if self.text is None else f" (found {self.text!r})"
        return f"{location}: {self.message}{quoted}" if location else f"{self.message}{quoted}"

    def _location(self) -> str:
        """Return ``file:line:column`` as far as it is known, in the form editors understand."""
        if self.line is None:
            return self.file or ""
        where = str(self.line) if self.column is None else f"{self.line}:{self.column}"
        return f"line {where}" if self.file is None else f"{self.file}:{where}"


class ModelFileError(SonlineError, ValueError):
    """A model file is damaged, was not written by sonline, or has a format that is too new."""


class DivergenceError(SonlineError, ArithmeticError):
    """The weights overflowed; the message names the row.

    After `learn`, ``rows_done`` is the number of rows that are learned or left out: training can go
    on with the next one. ``predictions`` are those of the rows that were learned.
    """

    rows_learned = rows_done = 0


class MissingPackageError(SonlineError, ModuleNotFoundError):
    """A package that only some parts of sonline need is not installed."""


class DownloadError(SonlineError, OSError):
    """A file could not be downloaded, or has unexpected content."""


def shown(value: object) -> str:
    """Return the beginning of the representation of a value, for a message.

    Examples
    --------
    >>> from sonline.errors import shown
    >>> shown("spam"), len(shown("x" * 10**6))
    ("'spam'", 83)
    """
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - of any class; integers may be too long for Python, too
        return f"<{type(value).__name__}>"
    start = text[:80].encode("utf-8", "backslashreplace").decode()
    return start if len(text) <= 80 else f"{start}..."


def as_option(name: str, *columns: str) -> str:
    """Return how to choose columns, or words, with an option of streams and commands.

    Examples
    --------
    >>> from sonline.errors import as_option
    >>> print(as_option("amounts", "price", "unit cost"))
    amounts=["price", "unit cost"] (--amount price --amount 'unit cost')
    """
    listed = ", ".join(f'"{column}"' for column in columns)
    flag = flag_of(name)
    return f"{name}=[{listed}] ({' '.join(f'{flag} {shlex.quote(column)}' for column in columns)})"


def flag_of(name: str) -> str:
    """Return the option of commands that is an option of streams.

    Examples
    --------
    >>> from sonline.errors import flag_of
    >>> flag_of("na_values"), flag_of("amounts")
    ('--na-values', '--amount')
    """
    return "--amount" if name == "amounts" else f"--{name.replace('_', '-')}"


def require(package: str, extra: str) -> None:
    """Raise an error that says what to install if a package is missing.

    Examples
    --------
    >>> from sonline.errors import require
    >>> require("no_such_package", "river")
    Traceback (most recent call last):
    ...
    sonline.errors.MissingPackageError: no_such_package is missing: pip install "sonline[river]"
    """
    if find_spec(package) is None:
        raise MissingPackageError(
            f'{package} is missing: pip install "sonline[{extra}]"', name=package
        )
