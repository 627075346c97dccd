"""The cache of parsed rows: the same rows as without it, and never wrong ones."""

import gzip
import json
import os
import random
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from sonline import OnlineLearner, streams
from sonline.errors import InvalidInputError, ParameterError
from sonline.model import Model
from sonline.read_options import ReadOptions
from sonline.training import RunSettings, Training

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")
module = pytest.importorskip("sonline.streams.cache")

ROWS = 6000


def write(kind: str, path: Path, rows: int = ROWS, seed: int = 0) -> Path:
    """Write rows with weights, tags and a few bad rows where the format has them."""
    rng = np.random.default_rng(seed)
    x, words = rng.integers(1, 9, (rows, 6)) / 4, rng.integers(0, 40, rows)
    labels = np.where(x @ [1, -1, 2, -2, 1, -1] > 0, 1, -1)
    lines = []
    for row, (values, word, label) in enumerate(zip(x.tolist(), words, labels, strict=True)):
        pairs = [f"{i + 1 + row // 100}:{v:g}" for i, v in enumerate(values)]
        if kind == "svm":
            lines.append(f"{'+1' if label > 0 else '-1'} {' '.join(pairs)}")
        elif kind == "vw":
            weight = " 2.5" if row > rows // 2 and row % 7 == 0 else ""
            tag = f" r{row}" if row % 1000 < 100 else ""
            lines.append(f"{label}{weight}{tag}|a {' '.join(pairs)} w{word}")
        elif kind == "csv":
            lines.append(f"{label},{row % 3},{','.join(map(str, values))},w{word},id{row}")
        else:
            cells = {f"c{i}": v for i, v in enumerate(values)} | {
                "word": f"w{word}",
                "id": f"i{row}",
            }
            lines.append(json.dumps({"label": int(label), **cells}))
        if row % 1500 == 700:
            lines.append("nonsense: {")
    if kind == "csv":
        lines.insert(0, "label,w,a,b,c,d,e,f,word,id")
    text = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def parquet(path: Path) -> Path:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.integers(-8, 9, (20000, 4)) / 4, columns=[*"abcd"])
    frame["label"] = np.where(frame["a"] > frame["b"], "yes", "no")
    frame["word"] = rng.choice(["x", "y", "z"], 20000)
    pq.write_table(pa.Table.from_pandas(frame), path)
    return path


KINDS = {
    "svmlight": ("svm", "d.svm", {}),
    "svmlight.gz": ("svm", "d.svm.gz", {}),
    "svmlight by name": ("svm", "d.svm", {"features": "name"}),
    "svmlight hashed": ("svm", "d.svm", {"hash_bits": 6}),
    "vw": ("vw", "d.vw", {}),
    "vw hashed": ("vw", "d.vw", {"hash_bits": 12, "interactions": ["aa"]}),
    "csv": ("csv", "d.csv", {"weight": "w", "tag": "id"}),
    "csv hashed": ("csv", "d.csv", {"hash_bits": 10, "text": ["a"], "ignore": ["id"]}),
    "jsonl": ("jsonl", "d.jsonl", {"ignore": ["id", "none"]}),
    "jsonl.gz": ("jsonl", "d.jsonl.gz", {"tag": "id", "interactions": ["c0*word"]}),
    "parquet": ("parquet", "d.parquet", {}),
}


def data_of(kind: str, folder: Path) -> tuple[list[Path], dict]:
    text, name, options = KINDS[kind]
    if text == "parquet":
        return [parquet(folder / name)], dict(options)
    second = write(text, folder / f"more-{name}", 500, seed=1)
    return [write(text, folder / name), second], {"on_error": "skip", **options}


def content(batch) -> dict:
    """Return all that a batch holds, but for the objects that own it."""
    held = dict(vars(batch))
    for name in ("keeper", "names"):
        held.pop(name)
    plain = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in held.items()}
    return {k: None if v != v else v for k, v in plain.items()}  # noqa: PLR0124 - NaN


def all_batches(files, **options):
    said = []
    with streams.open(files, **options) as stream:
        stream.say = said.append
        batches = list(stream)
        return batches, said, (stream.columns, stream.absent_columns, stream.share())


@pytest.mark.parametrize(
    ("kind", "tokens"),
    # The labels of the Parquet file are words.
    [(kind, tokens) for kind in KINDS for tokens in (True, False) if tokens or kind != "parquet"],
)
def test_the_batches_of_the_first_pass_are_those_without_a_cache(tmp_path, kind, tokens):
    files, options = data_of(kind, tmp_path)
    options["tokens"] = tokens
    plain, _, about = all_batches(files, **options)
    written, said, about_written = all_batches(files, cache=tmp_path / "c", **options)
    assert not said
    ready, said, about_ready = all_batches(files, cache=tmp_path / "c", **options)
    assert said == [f"cache {tmp_path / 'c'}: read instead of the data"]
    assert about == about_written == about_ready
    assert [*map(content, plain)] == [*map(content, written)] == [*map(content, ready)]
    assert [b.names.words for b in plain[-1:]] == [b.names.words for b in ready[-1:]]


def trained(files, cache=None, passes=3, **settings):
    """Return the bytes of a model, and what was said."""
    stream = settings.pop("stream")
    parameters = {k: stream[k] for k in ("hash_bits",) if k in stream}
    run = Training(
        RunSettings(
            data=[str(file) for file in files],
            parameters=parameters | settings.pop("parameters", {}),
            stream=ReadOptions(**{k: v for k, v in stream.items() if k != "hash_bits"}),
            passes=passes,
            cache=cache,
            **settings,
        )
    )
    said = []
    run.display.say = said.append
    return run.run().to_bytes(), said, run


@pytest.mark.parametrize("kind", KINDS)
def test_models_are_the_same_to_the_last_bit(tmp_path, kind):
    files, options = data_of(kind, tmp_path)
    cache = tmp_path / "c.arrow"
    for more in ({}, {"shuffle": 1000}, {"holdout": 5, "passes": 2}):
        expected = trained(files, stream=options, **more)[0]
        cache.unlink(missing_ok=True)
        for _ in range(2):
            assert trained(files, cache, stream=options, **more)[0] == expected


@pytest.mark.parametrize("kind", ["svmlight.gz", "vw", "csv", "jsonl", "parquet"])
@pytest.mark.parametrize("ready", [True, False])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path, kind, ready):
    files, options = data_of(kind, tmp_path)
    rows = 20000 if kind == "parquet" else ROWS + 500
    expected = trained(files, stream=options)[0]
    cache, part = tmp_path / "c.arrow", tmp_path / "part"
    for cut in (1, 700, rows - 1, rows, rows + 3, 2 * rows + 4321):
        cache.unlink(missing_ok=True)
        if ready:
            trained(files, cache, passes=1, stream=options)
        first = trained(files, cache, stream=options, limit=cut, checkpoint=part)[2]
        first.save()
        again = trained(files, cache, stream=options, resume=True, checkpoint=part)[0]
        assert again == expected, cut


def test_a_model_that_knows_other_names_and_labels_continues_with_the_same_bits(tmp_path):
    files, options = data_of("csv", tmp_path)
    other = tmp_path / "other.csv"
    other.write_text(
        "label,word,f,e,w,id\n1,w39,1,2,1,a\n+1,w5,1,2,1,a\n0,new,1,2,1,a\n-1,w5,1,2,1,a\n"
    )
    before, cache = tmp_path / "before", tmp_path / "c.arrow"
    start = {"weight": "w", "tag": "id", "on_error": "skip", "classes": "multi"}
    classes = start.pop("classes")
    run = trained([other], passes=1, stream=start, classes=classes)[2]
    run.model.save(before)
    expected = trained(files, stream=options, initial=before)[0]
    trained(files, cache, stream=options, classes=classes)
    model, said, _ = trained(files, cache, stream=options, initial=before)
    assert model == expected
    assert "read instead" in " ".join(said)


def test_a_cache_for_a_model_with_names_is_not_that_of_a_new_model(tmp_path):
    files, options = data_of("vw", tmp_path)
    before, cache = tmp_path / "before", tmp_path / "c.arrow"
    trained(files[1:], passes=1, stream=options)[2].model.save(before)
    continued = trained(files, stream=options, initial=before)[0]
    assert trained(files, cache, stream=options, initial=before)[0] == continued
    model, said, _ = trained(files, cache, stream=options)
    assert "a model with other features" in " ".join(said)
    assert model == trained(files, stream=options)[0]


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_cache_is_written_anew(tmp_path, seed):
    files, options = data_of("vw", tmp_path)
    cache = tmp_path / "c.arrow"
    plain, _, _ = all_batches(files, **options)
    all_batches(files, cache=cache, **options)
    good = cache.read_bytes()
    head = 4096  # damaged further in front, it may not be recognised
    rng = random.Random(seed)  # noqa: S311
    damaged = bytearray(good)
    where = rng.randrange(head, len(good))
    if seed % 3 == 0:
        del damaged[where:]
    elif seed % 3 == 1:
        damaged[where] ^= 1 << rng.randrange(8)
    else:
        damaged[where : where + 512] = bytes(len(damaged[where : where + 512]))
    cache.write_bytes(damaged)
    read, said, _ = all_batches(files, cache=cache, **options)
    assert [*map(content, read)] == [*map(content, plain)]
    if bytes(damaged) != good and "read instead" not in said[0]:  # or it hit padding
        assert said == [f"cache {cache}: not used, because it is damaged or cut off: written anew"]
        assert cache.read_bytes() == good


def test_numbers_out_of_range_are_damage_even_with_a_right_checksum(tmp_path):
    files, options = data_of("vw", tmp_path)
    path = tmp_path / "c.arrow"
    known = module._checksum
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_checksum", lambda batch: known(spoilt(batch)))
        all_batches(files, cache=path, **options)
    _, said, _ = all_batches(files, cache=path, **options)
    assert "damaged" in said[0]


def spoilt(batch):
    if batch.indices.size and batch.indices.flags.writeable:
        batch.indices[0] = 1 << 40
    return batch


CHANGES = {
    "data": (lambda files: files[0].write_text("1 |a x\n-1 |a y\n"), {}, "the data has changed"),
    "time": (lambda files: os.utime(files[1], (1, 1)), {}, "the data has changed"),
    "fewer files": (lambda files: files.pop(), {}, "the data has changed"),
    "option": (lambda files: None, {"ignore": ["b"]}, "other options (ignore)"),
    "features": (lambda files: None, {"hash_bits": 9}, "features, hash_bits, hash_seed)"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_cache_of_other_data_or_options_is_written_anew(tmp_path, change):
    files, options = data_of("vw", tmp_path)
    cache = tmp_path / "c.arrow"
    all_batches(files, cache=cache, **options)
    apply, more, why = CHANGES[change]
    apply(files)
    options |= more
    read, said, _ = all_batches(files, cache=cache, **options)
    assert len(said) == 1
    assert why in said[0]
    assert [*map(content, read)] == [*map(content, all_batches(files, **options)[0])]
    assert "read instead" in all_batches(files, cache=cache, **options)[1][0]


def test_data_that_changes_during_the_pass_is_not_cached(tmp_path):
    file = write("svm", tmp_path / "d.svm", 20000)
    said = []
    with streams.open(file, on_error="skip", cache=tmp_path / "c.arrow") as stream:
        stream.say = said.append
        for number, _ in enumerate(stream):
            if number == 0:
                with file.open("a") as more:
                    more.write("1 1:1\n")
    assert "changed while it was read" in said[0]
    assert not (tmp_path / "c.arrow").exists()


@pytest.mark.parametrize("other", ["text", "arrow", "model", "data", "folder"])
def test_no_other_file_is_overwritten(tmp_path, other):
    data = write("svm", tmp_path / "d.svm", 10)
    target = data if other == "data" else tmp_path / "c"
    if other == "folder":
        target.mkdir()
    elif other == "text":
        target.write_text("dear diary")
    elif other == "arrow":
        with pa.ipc.new_file(target, pa.schema([("a", pa.int64())])):
            pass
    elif other == "model":
        OnlineLearner().save(target)
    before = None if other == "folder" else target.read_bytes()
    with pytest.raises((ParameterError, OSError), match=r"not overwritten|folder"):
        OnlineLearner().learn_stream(data, cache=target)
    assert before is None or target.read_bytes() == before


def test_an_empty_file_may_become_a_cache(tmp_path):
    data = write("svm", tmp_path / "d.svm", 10)
    (tmp_path / "c").touch()
    OnlineLearner().learn_stream(data, cache=tmp_path / "c")
    assert (tmp_path / "c").stat().st_size


def test_a_stream_that_stops_early_leaves_nothing(tmp_path):
    data = write("svm", tmp_path / "d.svm")
    folder = tmp_path / "cache"
    folder.mkdir()
    with streams.open(data, cache=folder / "c") as stream, pytest.raises(Exception, match="label"):
        list(stream)  # the bad rows
    empty = tmp_path / "empty.svm"
    empty.touch()
    with streams.open(empty, cache=folder / "c") as stream:
        assert not [*stream]
    long = write("svm", tmp_path / "long.svm", 80000)
    with streams.open(long, on_error="skip", cache=folder / "c") as stream:
        next(iter(stream))
    assert not [*folder.iterdir()]


def test_a_folder_that_cannot_be_written_is_an_error_before_training(tmp_path):
    data = write("svm", tmp_path / "d.svm", 10)
    with pytest.raises(FileNotFoundError, match="no folder"):
        streams.open(data, cache=tmp_path / "none" / "c")


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    data = write("svm", tmp_path / "d.svm", 10)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidInputError, match=r'--cache.*pip install "sonline\[arrow\]"'):
        streams.open(data, cache=tmp_path / "c")


def test_the_file_is_plain_arrow(tmp_path):
    data = write("svm", tmp_path / "d.svm", 50)
    all_batches([data], on_error="skip", cache=tmp_path / "c")
    table = pa.ipc.open_file(tmp_path / "c").read_all()
    assert table.num_rows == 50
    assert table["features"][0].as_py()[0]["index"] == 1
    assert set(table["labels"].to_pylist()) == {-1.0, 1.0}


def test_a_copy_of_the_data_elsewhere_is_named_in_errors(tmp_path):
    data = write("svm", tmp_path / "d.svm")
    all_batches([data], on_error="skip", cache=tmp_path / "c")
    moved = tmp_path / "moved.svm"
    shutil.copy2(data, moved)
    read, said, _ = all_batches([moved], on_error="skip", cache=tmp_path / "c")
    assert "read instead" in said[0]
    assert {bad.file for batch in read for bad in batch.bad} == {str(moved)}


def test_learn_stream_has_a_cache(tmp_path):
    data = write("svm", tmp_path / "d.svm")
    models = []
    for cache in (None, tmp_path / "c", tmp_path / "c"):
        learner = OnlineLearner()
        learner.learn_stream(data, passes=2, cache=cache, on_error="skip")
        learner.save(tmp_path / "m")
        models.append((tmp_path / "m").read_bytes())
    assert models[0] == models[1] == models[2]
    assert Model.load(tmp_path / "m").stats()["rounds"] == 2 * ROWS


def test_batches_with_and_without_weights_are_joined(tmp_path):
    file = tmp_path / "a.vw"
    lines = ["1 2.0 |a x", *["-1 |a y"] * 60000, "1 0.5 |a x"]  # only the first and last batch
    file.write_text("".join(f"{line}\n" for line in lines))
    weighted = [batch.weights is not None for batch in all_batches([file])[0]]
    assert weighted == [True, *[False] * (len(weighted) - 2), True]
    for more in ({}, {"shuffle": 50000}):
        expected = trained([file], stream={}, **more)[0]
        assert trained([file], tmp_path / "c", stream={}, **more)[0] == expected
