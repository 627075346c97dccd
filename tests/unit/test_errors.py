import copy
import pickle
import subprocess
import sys

import pytest

from sonline import errors


def test_tree_is_as_drawn():
    drawn = {
        errors.InvalidInputError: (errors.SonlineError, ValueError),
        errors.ParameterError: (errors.InvalidInputError,),
        errors.DataFormatError: (errors.InvalidInputError,),
        errors.ModelFileError: (errors.SonlineError, ValueError),
        errors.DivergenceError: (errors.SonlineError, ArithmeticError),
        errors.DownloadError: (errors.SonlineError, OSError),
    }
    assert {error: error.__bases__ for error in drawn} == drawn


def test_every_error_is_exported_and_drawn():
    names = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.SonlineError)
    }
    assert names == set(errors.__all__)
    assert all(name in errors.__doc__ for name in names)


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, "bad label"),
        ({"text": "x"}, "bad label (found 'x')"),
        ({"file": "a.svm"}, "a.svm: bad label"),
        ({"line": 3}, "line 3: bad label"),
        ({"line": 3, "column": 7}, "line 3:7: bad label"),
        ({"file": "a.svm", "line": 3}, "a.svm:3: bad label"),
        (
            {"file": "a.svm", "line": 3, "column": 7, "text": "x"},
            "a.svm:3:7: bad label (found 'x')",
        ),
    ],
)
def test_format_error_says_where(where, expected):
    assert str(errors.DataFormatError("bad label", **where)) == expected


@pytest.mark.parametrize("remake", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_format_error_survives_copy_and_pickle(remake):
    error = errors.DataFormatError("bad label", file="a.svm", line=3, column=7, text="x")
    other = remake(error)
    assert type(other) is errors.DataFormatError
    assert vars(other) == vars(error)
    assert str(other) == str(error)


WITHOUT = """
import importlib.util, sys
usual = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == sys.argv[2] else usual(name, *rest)
import importlib
try:
    module = importlib.import_module(sys.argv[1])
    getattr(module, "SONClassifier", None)
except ModuleNotFoundError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("sonline.river", "river", "river"),
        ("sonline.distributed.dask", "distributed", "dask"),
        ("sonline.distributed.spark", "pyspark", "spark"),
        ("sonline.plots", "matplotlib", "plot"),
        ("sonline.export", "onnx", "onnx"),
    ],
)
def test_a_missing_extra_is_named(module, package, extra):
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, module, package], capture_output=True, text=True, check=True
    )
    assert done.stdout == f'{package} is missing: pip install "sonline[{extra}]"\n'
