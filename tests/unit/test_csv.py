"""CSV as people have it: other delimiters, no names, markers for missing cells."""

import itertools
import subprocess
import sys

import pytest

from sonline import OnlineLearner, streams
from sonline.errors import DataFormatError
from sonline.model import Model
from sonline.training import stream_options


def read(path, **options):
    """Return the rows as dictionaries by name, and the labels."""
    rows, names, labels = [], [], []
    with streams.open([path], **options) as stream:
        for batch in stream:
            names += batch.new_names
            ends = batch.indptr.tolist()
            pairs = list(zip(batch.indices.tolist(), batch.values.tolist(), strict=True))
            for start, end in itertools.pairwise(ends):
                rows.append({names[key]: value for key, value in pairs[start:end]})
            labels += batch.labels.tolist()
    return rows, labels


PLAIN = ([{"x": 2.5, "y": 3.0}, {"x": 4.0, "y": 1.0}], [1.0, -1.0])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_told_from_the_first_lines(tmp_path, delimiter):
    file = tmp_path / "a.csv"
    file.write_text("label,x,y\n1,2.5,3\n-1,4,1\n".replace(",", delimiter))
    assert read(file) == PLAIN
    assert read(file, delimiter=delimiter) == PLAIN


def test_a_file_without_names_of_columns(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("1,2.5,3\n-1,4,1\n")
    with pytest.raises(DataFormatError, match="--no-header"):
        read(file)
    rows, labels = read(file, header=False, label="c1")
    assert rows == [{"c2": 2.5, "c3": 3.0}, {"c2": 4.0, "c3": 1.0}]
    assert labels == [1.0, -1.0]
    file.write_text("1,2.5,3\n-1,4\n1,1,1\n")
    with pytest.raises(DataFormatError, match="row 2: 2 cells, expected 3") as wrong:
        read(file, header=False, label="c1")
    assert wrong.value.line == 2


@pytest.mark.parametrize("marker", ["?", "NA", "NaN", "", "null", "None", "n/a"])
def test_markers_of_missing_cells(tmp_path, marker):
    file = tmp_path / "a.csv"
    file.write_text(f"label,x,y\n1,2.5,3\n-1,{marker},1\n1,7,{marker}\n")
    assert read(file)[0] == [{"x": 2.5, "y": 3.0}, {"y": 1.0}, {"x": 7.0}]


def test_a_column_of_numbers_with_an_unknown_word_is_not_silently_one_of_words(tmp_path):
    file = tmp_path / "a.csv"
    lines = [f"1,{n},a{n % 3}\n" for n in range(1, 100)]
    file.write_text("label,x,y\n" + "".join(lines) + "1,unknown,b\n")
    with pytest.raises(DataFormatError, match=r"--missing unknown.*--text x"):
        read(file)
    assert "x" not in read(file, missing=["unknown"])[0][-1]
    assert read(file, text=["x"])[0][-1] == {"x=unknown": 1.0, "y=b": 1.0}
    assert read(file, ignore=["x"])[0][-1] == {"y=b": 1.0}


def test_decimal_commas_are_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("label;x\n1;2,5\n-1;3,25\n")
    with pytest.raises(DataFormatError, match="decimal commas"):
        read(file)


def test_line_breaks_and_delimiters_in_quotation_marks(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text('label;x;y\n1;"a;b\nc";2\n-1;"d ""e""";3\n')
    assert read(file)[0] == [{"x=a;b\nc": 1.0, "y": 2.0}, {'x=d "e"': 1.0, "y": 3.0}]


@pytest.mark.memory
def test_memory_does_not_grow_with_the_file(tmp_path):
    """A wide table: what is taken at a time is counted in cells, not in rows."""
    columns = 500
    file = tmp_path / "wide.csv"
    row = ",".join(str(n % 7 + 0.25) for n in range(columns))
    with file.open("w") as out:
        out.write("label," + ",".join(f"x{n}" for n in range(columns)) + "\n")
        for n in range(12000):
            out.write(f"{1 if n % 2 else -1},{row}\n")
    code = (
        "import sys, re, pathlib\nfrom sonline import streams\n"
        "with streams.open(sys.argv[1]) as stream: print(sum(map(len, stream)))\n"
        # Not getrusage, which counts what the parent had before the program was started.
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(int(re.search(r'VmHWM:\\s+(\\d+)', status)[1]) // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=True
    )
    rows, megabytes = map(int, done.stdout.split())
    assert rows == 12000
    assert megabytes < 250


def test_a_model_of_columns_without_names_needs_all_of_them(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("1,2.5,3\n-1,4,1\n" * 20)
    learner = OnlineLearner()
    learner.learn_stream(file, label="c1", header=False)
    learner.save(tmp_path / "m.son")
    file.write_text("2.5,3\n4,1\n")
    options = stream_options(Model.load(tmp_path / "m.son"), unlabelled=True, frozen=True)
    with pytest.raises(DataFormatError, match="2 columns, and there were 3 before"):
        read(file, **options)
