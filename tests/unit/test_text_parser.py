"""The incremental parser around the formats: positions, limits, errors, threads, memory."""

import gc
import resource
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from sonline import _core


def test_arrays_outlive_the_batch_and_share_its_memory():
    batch = _core.TextParser("svmlight").feed(b"1 1:2 3:4\n")
    values, again = batch.values, batch.values
    assert np.shares_memory(values, again)
    indices = batch.indices
    del batch, again
    gc.collect()
    assert values.tolist() == [2, 4]
    assert indices.tolist() == [1, 3]
    indices -= 1  # a caller may shift them in place
    assert indices.tolist() == [0, 2]


@pytest.mark.parametrize(
    "wrap", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)]
)
def test_any_buffer_can_be_fed(wrap):
    assert _core.TextParser("svmlight").feed(wrap(b"1 1:2\n")).values.tolist() == [2]


@pytest.mark.parametrize("wrong", ["text", None, 3, memoryview(b"abcd")[::2]])
def test_other_objects_are_refused(wrong):
    with pytest.raises((TypeError, BufferError)):
        _core.TextParser("svmlight").feed(wrong)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "arff"}, "format='arff' is unknown; choose one of 'svmlight', 'vw', 'csv'"),
        ({"labels": "x"}, "labels='x'"),
        ({"features": "x"}, "features='x'"),
        ({"dtype": "int8"}, "dtype='int8'"),
        ({"on_error": "x"}, "on_error='x'"),
        ({"hash_bits": 0}, "hash_bits must be from 1 to 62, not 0"),
        ({"hash_bits": 63}, "hash_bits must be from 1 to 62, not 63"),
        ({"max_line_bytes": 0}, "max_line_bytes must be at least 1"),
        ({"line": 0}, "line must be at least 1"),
        ({"offset": -1}, "offset at least 0"),
        ({"names": ["a", "b", "a"]}, "names must be distinct; 'a' comes twice"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        _core.TextParser(**{"format": "svmlight", **options})


def test_position_moves_line_by_line():
    parser = _core.TextParser("svmlight")
    assert (parser.line, parser.offset, parser.pending) == (1, 0, 0)
    parser.feed(b"1 1:2\n\n# c\n1 3")
    assert (parser.line, parser.offset, parser.pending) == (4, 11, 3)
    parser.feed(b":4")
    assert (parser.line, parser.offset, parser.pending) == (4, 11, 5)
    assert len(parser.end_file()) == 1
    assert (parser.line, parser.offset, parser.pending) == (5, 16, 0)


def test_parsing_can_be_resumed_after_any_row():
    lines = [f"{i % 3} |n f{i % 7}:{i} g{i}\n".encode() for i in range(40)]
    lines[5] = b"\n"
    lines[9] = b"bad\n"
    text = b"".join(lines)
    options = {"features": "name", "labels": "token", "on_error": "skip"}
    whole = _core.TextParser("vw", **options).feed(text)
    for row in range(len(whole)):
        seen = int(whole.indices[: whole.indptr[row + 1]].max()) + 1
        labels = int(whole.label_codes[: row + 1].max()) + 1
        offset = int(whole.ends[row])
        rest = _core.TextParser(
            "vw",
            **options,
            line=int(whole.lines[row]) + 1,
            offset=offset,
            names=whole.new_names[:seen],
            label_names=whole.new_labels[:labels],
        ).feed(text[offset:])
        assert rest.indices.tolist() == whole.indices[whole.indptr[row + 1] :].tolist()
        assert rest.label_codes.tolist() == whole.label_codes[row + 1 :].tolist()
        assert rest.lines.tolist() == whole.lines[row + 1 :].tolist()
        assert rest.ends.tolist() == whole.ends[row + 1 :].tolist()
        assert rest.new_names == whole.new_names[seen:]


def test_stop_at_the_first_error_delivers_the_rows_before_it():
    parser = _core.TextParser("svmlight")
    batch = parser.feed(b"1 1:2\n-1 3:4\n0 5:x\n1 7:8\n")
    assert batch.values.tolist() == [2, 4]
    [error] = batch.errors
    assert (error.line, error.column, error.offset) == (3, 5, 13)
    assert error.text == b"0 5:x"
    assert error.word == b"x"
    assert "expected a number" in error.reason
    assert parser.failed
    assert (parser.line, parser.offset) == (3, 13)
    with pytest.raises(RuntimeError, match="stopped at an error"):
        parser.feed(b"1 1:2\n")
    with pytest.raises(RuntimeError, match="stopped at an error"):
        parser.end_file()


def test_skip_collects_all_errors():
    parser = _core.TextParser("svmlight", on_error="skip", max_error_bytes=6)
    batch = parser.feed(b"x\n1 1:2\n1 1:some_very_long_word_of_more_than_forty_bytes 2:3\n3 4:5")
    assert batch.labels.tolist() == [1]
    assert [(error.line, error.column, error.text) for error in batch.errors] == [
        (1, 1, b"x"),
        (3, 5, b"1 1:so"),
    ]
    assert batch.errors[1].word == b"some_very_long_word_of_more_than_forty_b"
    assert parser.end_file().labels.tolist() == [3]
    assert not parser.failed


def test_lines_of_ten_megabytes():
    count = 1_000_000
    line = b"1 " + b" ".join(b"%d:0.25" % i for i in range(count)) + b"\n"
    assert len(line) > 10_000_000
    parser = _core.TextParser("svmlight")
    batches = [parser.feed(line[i : i + 65_536]) for i in range(0, len(line), 65_536)]
    assert [len(batch) for batch in batches] == [0] * (len(batches) - 1) + [1]
    assert np.array_equal(batches[-1].indices, np.arange(count))


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_line_length_limit(size):
    text = b"1 1:2\n" + b"1 " + b"1:2 " * 50 + b"\n-1 3:4\n" + b"1 " + b"5:6 " * 50
    parser = _core.TextParser("svmlight", on_error="skip", max_line_bytes=100)
    batches = [parser.feed(text[i : i + size]) for i in range(0, len(text), size)]
    batches.append(parser.end_file())
    errors = [error for batch in batches for error in batch.errors]
    assert [(error.kind, error.line, error.column) for error in errors] == [
        ("line_too_long", 2, 101),
        ("line_too_long", 4, 101),
    ]
    assert errors[0].text == text[6:106]
    assert [line for batch in batches for line in batch.lines] == [1, 3]
    assert parser.offset == len(text)


def test_a_line_of_exactly_the_limit_is_fine():
    parser = _core.TextParser("svmlight", max_line_bytes=5)
    assert parser.feed(b"1 1:2\n1 1:2").values.tolist() == [2]
    assert parser.end_file().values.tolist() == [2]


@pytest.mark.memory
def test_endless_line_does_not_fill_the_memory():
    parser = _core.TextParser("svmlight", on_error="skip", max_line_bytes=1 << 20)
    chunk = b"x" * (1 << 20)
    before = resident_bytes()
    for _ in range(200):
        parser.feed(chunk)
    assert resident_bytes() - before < 20 << 20
    assert parser.pending == 200 << 20
    [error] = parser.feed(b"\n").errors
    assert error.kind == "line_too_long"


def resident_bytes():
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * resource.getpagesize()


@pytest.mark.memory
def test_many_chunks_in_bounded_memory():
    chunk = b"".join(b"1 %d:0.5 %d:1.25\n" % (i, i + 7) for i in range(20_000))
    parser = _core.TextParser("svmlight")
    parser.feed(chunk)
    before = resident_bytes()
    for _ in range(100):
        assert len(parser.feed(chunk)) == 20_000
    assert resident_bytes() - before < 20 << 20


def test_other_threads_run_while_one_parses():
    """The GIL is released: another thread gets on with its work in the middle of one long call."""
    text = (b"1 " + b"12345:0.123456 " * 64 + b"\n") * 40_000
    ticks, stop = [], threading.Event()

    def work():
        while not stop.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.0002)

    thread = threading.Thread(target=work)
    thread.start()
    met = False
    for _ in range(100):  # on a busy machine the other thread may not get a turn each time
        start = time.perf_counter()
        _core.TextParser("svmlight").feed(text)
        quarter = (time.perf_counter() - start) / 4
        met = any(start + quarter < tick < start + 3 * quarter for tick in ticks)
        if met:
            break
    stop.set()
    thread.join()
    assert met


def test_two_threads_may_share_a_parser():
    parser = _core.TextParser("svmlight")
    lines = b"1 1:2 3:4\n" * 1000
    totals = []

    def work():
        totals.append(sum(len(parser.feed(lines)) for _ in range(50)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(totals) == 200_000
    assert parser.line == 200_001


def test_dictionary_gains_are_reported_once():
    parser = _core.TextParser("vw", features="name", names=["a"])
    assert parser.feed(b"1 | a b\n").new_names == ["b"]
    assert parser.feed(b"1 | b a c\n").new_names == ["c"]
    assert parser.feed(b"1 | c\n1 | d").new_names == []
    assert parser.end_file().new_names == ["d"]


def test_random_bytes_never_crash():
    rng = np.random.default_rng(0)
    for fmt in ("svmlight", "vw"):
        for _ in range(300):
            parser = _core.TextParser(fmt, on_error="skip", features="name", namespaces=True)
            for _ in range(4):
                parser.feed(rng.bytes(rng.integers(200)))
            parser.end_file()
