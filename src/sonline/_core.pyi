"""The native core of sonline."""

from collections.abc import Mapping, Sequence, Set
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def in_subinterpreter() -> bool: ...

class Hold:
    """No other thread uses the model between several calls."""

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None: ...

class Model:
    """A model with all its state; see sonline.model."""

    def __init__(self, params: dict, single_precision: bool, classes: int | None = None, growing: bool = False) -> None: ...

    def hold(self, alone: bool = False) -> Hold: ...

    def learn_arrays(self, rows: tuple, y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], threads: int = 1, classes: int = 0, growing: bool = True) -> None: ...

    def learn_rows(self, rows: Sequence, y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], threads: int = 1, classes: int = 0, growing: bool = True) -> None: ...

    def predict_arrays(self, rows: tuple, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], later: bool = True, uncertainties: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None = None, sizes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None = None) -> None: ...

    def predict_rows(self, rows: Sequence, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], later: bool = True, uncertainties: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None = None, sizes: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None = None) -> None: ...

    def sized_one(self, row: object | None, later: bool = True) -> tuple[list[float], list[float]]: ...

    def uncertain_one(self, row: object | None, later: bool = True) -> tuple[list[float], list[float]]: ...

    def learn_one(self, row: object | None, y: float, weight: float) -> float: ...

    def predict_one(self, row: object | None, later: bool = True) -> list[float]: ...

    def predict_number(self, row: object | None, later: bool = True) -> float: ...

    def choose_one(self, row: object | None, later: bool = True) -> int: ...

    def refuse_columns(self, groups: Sequence[tuple[Sequence[str], str]]) -> None: ...

    def read_as_text(self, columns: Set[str]) -> None: ...

    def name_keys(self, names: Sequence[str], add: bool = True) -> NDArray[numpy.uint64]: ...

    def name_count(self) -> int: ...

    def names(self) -> list: ...

    def features(self) -> list: ...

    def lines(self) -> int: ...

    def weights(self, line: int = 0) -> NDArray[numpy.float64]: ...

    def scales(self) -> NDArray[numpy.float64]: ...

    def limits(self) -> NDArray[numpy.float64]: ...

    def centres(self) -> NDArray[numpy.float64]: ...

    def spectrum(self, line: int = 0) -> NDArray[numpy.float64]: ...

    def shares(self, line: int = 0, later: bool = True) -> NDArray[numpy.float64]: ...

    def limits_of_scores(self, error: float, later: bool = True) -> NDArray[numpy.float64]: ...

    def basis(self, line: int = 0) -> NDArray[numpy.float64]: ...

    def curves(self, line: int = 0) -> list: ...

    def pairs(self, line: int = 0) -> list: ...

    def stats(self) -> dict: ...

    def save(self) -> dict: ...

    def restore(self, fields: dict) -> None: ...

    def knowledge(self) -> dict: ...

    def set_knowledge(self, knowledge: dict) -> None: ...

    def label_range(self) -> tuple[float, float]: ...

    def start_label_range(self, low: float, high: float) -> None: ...

def sketch_names() -> list[str]: ...

def loss_info() -> list: ...

class Loss:
    """A loss with its parameter; see sonline.evaluate.losses."""

    def __init__(self, name: str, quantile: float = 0.5, power: float = 1.5, delta: float = 1.345, epsilon: float = 0.1) -> None: ...

    def sigma(self, bound: float) -> float: ...

    def values(self, z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def means(self, z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def without_offsets(self, y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], labels: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def implicit_steps(self, z: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], y: float, q: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], fits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], steps: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def split_csv(text: bytes, delimiter: str, most: int = 18446744073709551615) -> tuple[list[list[bytes]], int]:
    """
    Return the cells of the first rows of a piece of CSV, and how many bytes these are.
    """

def describe_csv(text: bytes, delimiter: str, columns: int, na_values: Sequence[str]) -> list[tuple[int, int, int, bytes]]:
    """
    Return for each column of a piece of CSV the number of its cells, of words that are no numbers and of decimal commas, and the first word.
    """

def read_date(word: str) -> float | None:
    """
    Return a date or time such as 2024-05-17T12:30 as days since 2000-01-01.
    """

def read_amount(word: str) -> float | None:
    """Return a number with separators and signs, such as 1,234.50 or 12 %."""

def date_parts(days: float) -> list[tuple[str, float]]:
    """
    Return the features of a date: the endings of their names, and their values.
    """

def hash_bytes(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit hash of a byte string."""

@overload
def hash_slot(index: int, bits: int) -> int:
    """Return the slot of an integer key among 2^bits."""

@overload
def hash_slot(name: bytes, bits: int, seed: int = 0) -> int:
    """Return the slot of a named key among 2^bits."""

class NameTable:
    """Exact names with ids in the order of insertion."""

    def __init__(self) -> None: ...

    def __len__(self) -> int: ...

    def insert(self, name: bytes) -> int: ...

    def find(self, name: bytes) -> int | None: ...

    def name(self, arg: int, /) -> bytes: ...

    def truncate(self, size: int) -> None: ...

    def saved(self) -> tuple[bytes, list[int]]: ...

    @staticmethod
    def restore(blob: bytes, offsets: Sequence[int]) -> NameTable: ...

class TextError:
    """A line that could not be parsed."""

    @property
    def kind(self) -> str: ...

    @property
    def reason(self) -> str: ...

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def row(self) -> int: ...

    @property
    def cell(self) -> int: ...

    @property
    def text(self) -> bytes: ...

    @property
    def word(self) -> bytes: ...

    @property
    def name(self) -> bytes:
        """Name of the column, in JSON lines."""

class TextBatch:
    """Rows in CSR form; the arrays belong to the batch."""

    def __len__(self) -> int: ...

    @property
    def indptr(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Where each row starts and ends in indices and values."""

    @property
    def indices(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Index, slot or name id of each feature."""

    @property
    def namespaces(self) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
        """Namespace id of each feature, if asked for."""

    @property
    def values(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))] | Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """Value of each feature."""

    @property
    def labels(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """Label of each row as a number, NaN where it has none."""

    @property
    def label_codes(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """
        Label of each row as a code, -1 where it has none, if labels are tokens.
        """

    @property
    def unlabelled(self) -> int:
        """Number of rows without label."""

    @property
    def weights(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))] | None:
        """Weight of each row; None if all are 1."""

    @property
    def offsets(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))] | None:
        """Offset of each row; None if all are 0."""

    @property
    def tags(self) -> list[str] | None:
        """Tag of each row; None if no row has one."""

    @property
    def lines(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Line number of each row."""

    @property
    def ends(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Offset of the first byte after each row's line."""

    @property
    def next_lines(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Number of the line after each row of CSV."""

    @property
    def row_ends(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
        """Rows of CSV up to each row, bad ones among them."""

    @property
    def new_names(self) -> list[str]:
        """Feature names that this batch is the first to use."""

    @property
    def new_labels(self) -> list[str]:
        """Class labels that this batch is the first to use."""

    @property
    def new_namespaces(self) -> list[str]:
        """Namespaces that this batch is the first to use."""

    @property
    def number_columns(self) -> list[str]:
        """Columns that are known to hold numbers from here on."""

    @property
    def text_columns(self) -> list[str]:
        """Columns that are known to hold text from here on."""

    @property
    def date_columns(self) -> list[str]:
        """Columns that are known to hold dates from here on."""

    @property
    def unknown_features(self) -> int:
        """Number of features left out because names are frozen."""

    @property
    def errors(self) -> list[TextError]:
        """The lines that could not be parsed."""

class TextParser:
    """
    Turns chunks of svmlight, Vowpal Wabbit text, CSV or JSON lines into rows.
    """

    def __init__(self, format: str, *, labels: str = 'number', features: str = 'index', hash_bits: int = 18, hash_seed: int = 0, dtype: str = 'float32', largest_value: float = 1.7976931348623157e+308, on_error: str = 'stop', allow_unlabelled: bool = False, namespaces: bool = False, frozen_names: bool = False, max_line_bytes: int = 67108864, max_error_bytes: int = 65536, line: int = 1, offset: int = 0, names: object = [], label_names: Sequence[str] = [], na_values: Sequence[str] = [], refuse_missing: bool = False, mark_missing: bool = False, label_weights: bool = False, skipped_spaces: bytes = ...) -> None: ...

    def feed(self, data: object) -> TextBatch:
        """
        Return the rows that end within this chunk of bytes; the GIL is released meanwhile.
        """

    def end_file(self) -> TextBatch:
        """
        Return the row of a last line without newline; another file may be fed after it.
        """

    def seek(self, line: int, offset: int, rows: int) -> None:
        """Set where the next file is read on."""

    def set_columns(self, names: Sequence[str], kinds: Sequence[str], ngrams: Sequence[int], products: Sequence[tuple[int, int]], delimiter: str) -> None:
        """Set what the columns of the CSV hold that is fed next."""

    def set_json_columns(self, roles: Mapping[str, str], kinds: Mapping[str, str], text: Sequence[str], ngrams: Mapping[str, int], products: Sequence[tuple[str, str]]) -> None:
        """Set what columns of JSON lines are, by name, before anything is fed."""

    @property
    def columns(self) -> list[str]:
        """JSON lines: the columns that rows had so far."""

    @property
    def line(self) -> int:
        """Number of the first line that is not parsed yet, counted from 1."""

    @property
    def offset(self) -> int:
        """Offset of the first byte of that line within the input."""

    @property
    def rows(self) -> int:
        """Number of rows before that line, bad ones among them."""

    @property
    def pending(self) -> int:
        """Number of bytes of that line that were already fed."""

    @property
    def failed(self) -> bool:
        """Whether the parser stopped at a bad line."""
