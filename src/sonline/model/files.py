"""Models as files and pickles (docs/model-files.md)."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast

from sonline import _core, persistence
from sonline.errors import ModelFileError
from sonline.evaluate import Progress
from sonline.labels import ClassTable
from sonline.model.batches import StreamKeys
from sonline.model.features import file_columns
from sonline.model.inspection import Inspection
from sonline.model.schema import check_document
from sonline.parameters import Parameters
from sonline.read_options import ReadOptions


@dataclass(frozen=True)
class Reading:
    """How a stream of rows for a model is read."""

    features: str = ""  # "index", "name" or "hash"; "" as long as no stream was read
    columns: dict[str, str] = field(default_factory=dict)  # of tables: "number", "text" or "date"
    table: ReadOptions = field(default_factory=ReadOptions)  # that decide what a row holds

    def as_dict(self) -> dict[str, Any]:
        """Return it as values that JSON can hold."""
        return vars(self) | {"table": self.table.of_rows()}


def new_core(parameters: Parameters, table: ClassTable | None) -> _core.Model:
    """Return an empty model of the core for numbers, or for these classes."""
    single = parameters.dtype == "float32"
    if table is None:
        return _core.Model(parameters.for_core(), single)
    return _core.Model(parameters.for_core(), single, len(table), table.growing)


class ModelFiles(Inspection):
    """The part of `Model` that writes and reads files and pickles."""

    _reading: Reading
    progress: Progress
    run: dict[str, Any]
    face: dict[str, Any]
    only_predicts: bool
    _learned_stream: StreamKeys
    _predicted_stream: StreamKeys

    @property
    def reading(self) -> Reading:
        """How streams are read for it."""
        return self._reading

    @reading.setter
    def reading(self, reading: Reading) -> None:
        self._reading = reading
        if "core" in vars(self):
            self._set_columns()

    def _set_columns(self) -> None:
        """Tell the core what columns of mappings are."""
        self.core.refuse_columns(file_columns(self.reading.table))
        self.core.read_as_text(self.text_columns)

    @abstractmethod
    def _set_core(self, core: _core.Model) -> None:
        """Use this model of the core."""

    def document(self, pickled: bool = False) -> dict[str, Any]:
        """Return everything but the arrays, as values that JSON, or only a pickle, can hold."""
        table = self.table
        as_it_is = table is None or (pickled and not table.storable)
        return {
            "parameters": self.parameters.as_dict(),
            "classes": table if as_it_is else cast(ClassTable, table).as_dict(),
            "reading": self.reading.as_dict(),
            "only_predicts": self.only_predicts,
            "progress": self.progress.as_dict(),
            "run": self.run,
            "face": self.face,
        }

    def tensors(self) -> persistence.Tensors:
        """Return the arrays, all of the same moment."""
        return self.core.save()

    def _snapshot(self, pickled: bool = False) -> tuple[dict[str, Any], persistence.Tensors]:
        """Return document and arrays of the same moment, also if another thread adds a class."""
        with self.core.hold():
            return self.document(pickled), self.tensors()

    def save(self, path: str | os.PathLike[str], face: Mapping[str, Any] | None = None) -> None:
        """Write everything to a file, with a note of the face."""
        document, tensors = self._snapshot()
        persistence.write(path, document | ({} if face is None else {"face": dict(face)}), tensors)

    def to_bytes(self) -> bytes:
        """Return the content of a model file."""
        return persistence.pack(*self._snapshot())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that any face saved."""
        return cls._of(*persistence.read(path), os.fspath(path))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Make a model from the content of a model file."""
        return cls._of(*persistence.unpack(data, "the model"), "the model")

    @classmethod
    def _of(cls, document: dict[str, Any], tensors: persistence.Tensors, name: str) -> Self:
        model = cls.__new__(cls)
        with persistence.reading(name):
            check_document(document)
            model._restore(document, tensors)  # noqa: SLF001 - of the same class
        return model

    def __getstate__(self) -> tuple[dict[str, Any], persistence.Tensors]:
        return self._snapshot(pickled=True)

    def __setstate__(self, state: tuple[dict[str, Any], persistence.Tensors]) -> None:
        try:
            with persistence.reading():
                self._restore(*state)
        except ModelFileError as error:
            raise ModelFileError(
                f"a pickle of another version of sonline, or damaged ({error}); use save and load "
                "to keep models"
            ) from error

    def _restore(self, document: dict[str, Any], tensors: persistence.Tensors) -> None:
        classes = document["classes"]
        if isinstance(classes, Mapping):
            classes = ClassTable.from_dict(dict(classes))
        self.parameters = Parameters(**document["parameters"])
        self.table = classes
        table = ReadOptions(**document["reading"]["table"])
        self.reading = Reading(**(document["reading"] | {"table": table}))
        self.progress = Progress.from_dict(document["progress"])
        self.run, self.face = dict(document["run"]), dict(document["face"])
        self.only_predicts = bool(document["only_predicts"])
        self._learned_stream, self._predicted_stream = StreamKeys(), StreamKeys()
        core = new_core(self.parameters, classes)
        core.restore(tensors)
        self._set_core(core)
