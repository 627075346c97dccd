"""CSV as people have it: other delimiters, no names, markers for missing cells."""

import csv
import io
import itertools
import os
import re
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonline import OnlineLearner, _core, streams
from sonline.errors import DataFormatError, ParameterError
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
def test_the_delimiter_is_detected_from_the_first_lines(tmp_path, delimiter):
    file = tmp_path / "a.csv"
    file.write_text("label,x,y\n1,2.5,3\n-1,4,1\n".replace(",", delimiter))
    assert read(file) == PLAIN
    assert read(file, delimiter=delimiter) == PLAIN


def test_invalid_delimiters(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("label.x\n1.2\n")
    with pytest.raises(ParameterError, match="may be part of a number"):
        read(file, delimiter=".")


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


@pytest.mark.parametrize(
    "marker", ["?", "NA", "NaN", "", "null", "None", "n/a", "\\N", "<NA>", "  "]
)
def test_markers_of_missing_cells(tmp_path, marker):
    file = tmp_path / "a.csv"
    file.write_text(f"label,x,y\n1,2.5,3\n-1,{marker},1\n1,7,{marker}\n")
    assert read(file)[0] == [{"x": 2.5, "y": 3.0}, {"y": 1.0}, {"x": 7.0}]


def test_a_column_of_numbers_with_an_unknown_word_is_not_silently_one_of_words(tmp_path):
    file = tmp_path / "a.csv"
    lines = [f"1,{n},a{n % 3}\n" for n in range(1, 100)]
    file.write_text("label,x,y\n" + "".join(lines) + "1,unknown,b\n")
    with pytest.raises(DataFormatError, match=r"--na-values unknown.*--text x"):
        read(file)
    assert "x" not in read(file, na_values=["unknown"])[0][-1]
    assert read(file, text=["x"])[0][-1] == {"x=unknown": 1.0, "y=b": 1.0}
    assert read(file, ignore=["x"])[0][-1] == {"y=b": 1.0}


def test_a_cell_of_blanks_is_missing_among_words(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("label,x,y\n1,a,3\n-1,  ,1\n1,b,2\n")
    assert read(file)[0] == [{"x=a": 1.0, "y": 3.0}, {"y": 1.0}, {"x=b": 1.0, "y": 2.0}]


@pytest.mark.parametrize("share", [2, 3, 7])
def test_numbers_with_many_missing_cells_are_not_silently_categories(tmp_path, share):
    file = tmp_path / "a.csv"
    lines = [f"1,{'-' if n % share == 0 else n},a{n % 3}\n" for n in range(1, 300)]
    file.write_text("label,x,y\n" + "".join(lines))
    with pytest.raises(DataFormatError, match=r"\(--na-values -\);.*--text x"):
        read(file)
    assert len(read(file, na_values=["-"])[0]) == 299
    assert len(read(file, text=["x"])[0]) == 299


@pytest.mark.parametrize(
    "shown", ["12,{}.85", "{}.234,50", "$1,{}.5", "{}%", "{} %", "-${}", "\u20ac{}"]
)
def test_formatted_numbers_are_not_silently_categories(tmp_path, shown):
    file = tmp_path / "a.csv"
    values = [shown.format(n) for n in range(100, 140)]
    file.write_text("label,x,y\n" + "".join(f'1,"{value}",2\n' for value in values))
    with pytest.raises(DataFormatError, match=r"column 'x' has .*numbers.*--text x"):
        read(file)
    assert len(read(file, text=["x"])[0]) == 40


def test_all_columns_of_formatted_numbers_are_named_at_once(tmp_path, recwarn):
    file = tmp_path / "a.csv"
    rows = [f'1,"{n},234.50 €",{n} %,2' for n in range(1, 1100)]
    file.write_text("\n".join(["label,price,rate,x", *rows]))
    both = r"'price', 'rate' have .*--amount price --amount rate"
    with pytest.raises(DataFormatError, match=both):
        read(file)
    assert not recwarn.list  # of categories that nearly every row has for itself
    assert read(file, amounts=["price", "rate"])[0][1] == {"price": 2234.5, "rate": 2.0, "x": 2.0}


@pytest.mark.parametrize(
    "words",
    [
        [f"{n:02}.01.2024" for n in range(1, 29)],
        [f"10.0.{n}.7" for n in range(40)],
        ["10%", "20%"] * 20,
        [f"{n}" if n % 2 else f"A{n}" for n in range(40)],
        [f"{n}:30" for n in range(24)],
        ["1", "2", "3", "other"] * 9,
    ],
)
def test_words_with_digits_are_categories(tmp_path, words):
    file = tmp_path / "a.csv"
    file.write_text("label,x,y\n" + "".join(f"1,{word},2\n" for word in words))
    assert read(file)[0][1].keys() == {f"x={words[1]}", "y"}


def test_decimal_commas_are_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("label;x\n1;2,5\n-1;3,25\n")
    with pytest.raises(DataFormatError, match=r"commas in its numbers: write 1\.5"):
        read(file)


def test_line_breaks_and_delimiters_in_quotation_marks(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text('label;x;y\n1;"a;b\nc";2\n-1;"d ""e""";3\n')
    assert read(file)[0] == [{"x=a;b\nc": 1.0, "y": 2.0}, {'x=d "e"': 1.0, "y": 3.0}]


@pytest.mark.memory
def test_memory_does_not_grow_with_the_file(tmp_path):
    """A wide table: the size of a batch is limited in cells, not in rows."""
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
        # Not getrusage, which includes the memory of the parent before the program started.
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


CELLS = st.text(st.sampled_from('ab ,;"\n\u00e9'), max_size=6)


@given(st.lists(st.lists(CELLS, min_size=3, max_size=3), min_size=1, max_size=5), st.data())
def test_cells_are_those_of_the_csv_module_wherever_chunks_end(rows, data):
    """A cell may hold delimiters, quotation marks and line breaks; so may the end of a chunk."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(rows)
    content = text.getvalue().encode()
    actual, used = _core.split_csv(content, ",")
    assert [[cell.decode() for cell in row] for row in actual] == rows
    assert used == len(content)
    parser = _core.TextParser("csv", features="name", labels="token", allow_unlabelled=True)
    parser.set_columns(["label", "x", "y"], ["label", "text", "text"], [0, 0, 0], [], ",")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=4)))
    names, labels, batches = [], [], []
    for start, end in itertools.pairwise([0, *cuts, len(content)]):
        batches.append(parser.feed(content[start:end]))
        names += batches[-1].new_names
        labels += batches[-1].new_labels
    wanted = [f"{name}={cell}" for row in rows for name, cell in zip("xy", row[1:], strict=True)]
    wanted = [name for name in wanted if name[2:].strip(" \t\r\n")]  # others are missing
    assert names == list(dict.fromkeys(wanted))
    assert labels == list(dict.fromkeys(row[0] for row in rows if row[0].strip()))
    assert [end for batch in batches for end in batch.row_ends] == [*range(1, len(rows) + 1)]
    assert parser.line == content.count(b"\n") + 1


def test_a_bad_row_takes_back_its_names(tmp_path):
    """The id of a column is kept from row to row; that of a row that is bad must not be."""
    file = tmp_path / "a.csv"
    file.write_text("label,x,y,z\n1,0,1,1\n1,5,2,bad\n1,0,3,4\n1,7,0,1\n")
    options = {"columns": {"x": "number", "y": "number", "z": "number"}, "on_error": "skip"}
    assert read(file, **options)[0] == [{"y": 1, "z": 1}, {"y": 3, "z": 4}, {"x": 7, "z": 1}]


def test_parsing_takes_no_longer_than_svmlight():
    """The same rows: within four times, measured in turn; reading cells as objects took twelve."""
    numbers = [[n % 97 / 8, n % 89 + 0.125, -n / 4, n * 1.5] * 6 for n in range(4000)]
    table = "".join("1," + ",".join(map(str, row)) + "\n" for row in numbers).encode()
    lines = "".join(
        "1 " + " ".join(f"{i}:{v}" for i, v in enumerate(row)) + "\n" for row in numbers
    ).encode()
    names = ["label", *(f"x{number}" for number in range(24))]
    best = {"csv": 1e9, "svmlight": 1e9}
    for _ in range(5):
        for kind, text in (("csv", table), ("svmlight", lines)):
            parser = _core.TextParser(kind, features="name")
            if kind == "csv":
                kinds = ["label", *["number"] * 24]
                parser.set_columns(names, kinds, [0] * 25, [], ",")
            started = time.process_time()
            assert len(parser.feed(text)) == 4000
            best[kind] = min(best[kind], time.process_time() - started)
    assert best["csv"] < 4 * best["svmlight"]


def test_rows_of_a_slow_pipe_come_at_once_if_the_columns_are_known(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)  # which never ends
    os.write(writer, b"label;x\n1;2\n")
    with streams.open([pipe], columns={"x": "number"}) as stream:
        batches = iter(stream)
        assert next(batch.values.tolist() for batch in batches if len(batch)) == [2]
        os.write(writer, b"-1;3\n")
        assert next(batch.values.tolist() for batch in batches if len(batch)) == [3]
        os.close(writer)


def test_a_row_that_is_too_long_is_a_bad_row():
    parser = _core.TextParser("csv", features="name", on_error="skip", max_line_bytes=30)
    parser.set_columns(["label", "x"], ["label", "text"], [0, 0], [], ",")
    batch = parser.feed(b'1,a\n1,"' + b"b\n" * 20 + b'"\n1,c\n' + b" " * 100)
    assert len(batch) == 2
    assert [(error.kind, error.line) for error in batch.errors] == [("line_too_long", 2)]
    assert batch.lines.tolist() == [1, 23]


def test_carriage_returns_alone_are_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b"label,x\r1,2\r-1,3\r")
    with pytest.raises(DataFormatError, match="carriage returns"):
        read(file)


@pytest.mark.parametrize("cell", ["1.5", "word"])
def test_the_first_cell_decides_a_column_that_begins_empty(cell, tmp_path):
    rare = cell.replace("1.5", "rare") if cell == "1.5" else "rare=word"
    rows = 200_000  # beyond the part that types are detected from
    path = tmp_path / "a.csv"
    path.write_text("label,x,rare\n" + "1,2.25,\n" * rows + f"-1,3,{cell}\n1,1,?\n")
    names = []
    with streams.open(path) as stream:
        for batch in stream:
            names += batch.new_names
    assert names == ["x", rare]
    assert stream.columns["rare"] == ("number" if cell == "1.5" else "text")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "x,label\n1,1\n".encode("utf-16"), "UTF-16, expected UTF-8"),
        ("a.txt", "x,label\n1,1\n".encode("utf-16"), "UTF-16, expected UTF-8"),
        ("a.xlsx", b"PK\x03\x04\x14\0\x06", "a spreadsheet"),
        ("a.json", b'[{"x": 1, "label": 0},\n', "jq -c"),
        ("a.json", b' [\n{"x": 1, "label": 0},\n', "jq -c"),
        ("a.csv", b"1.5,0.5,yes\n2,1,no\n", "--no-header"),
        ("a.csv", b"x, Label\n1,1\n2,0\n", "such as ' Label'"),
    ],
)
def test_other_kinds_of_files_are_refused(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises((DataFormatError, ParameterError), match=re.escape(words)):
        list(streams.open(tmp_path / name))


def test_a_label_with_commas_is_shown_whole(tmp_path):
    (tmp_path / "a.csv").write_text('x,price\n1,"435,501"\n')
    with pytest.raises(DataFormatError, match=r'without commas.*"435,501"'):
        list(streams.open(tmp_path / "a.csv", label="price"))
