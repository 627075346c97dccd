"""A stream learned in Python gives the bits of the command line, also after kill -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faces.test_files import CommandLine, tensors
from sonline import OnlineLearner, streams
from sonline.errors import DataFormatError, InvalidInputError, ParameterError
from sonline.model import Model


def write(path: Path, rows: int, labels: tuple[Any, ...] = (-1, 1), seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(1).normal(size=(30, len(labels)))
    with path.open("w") as file:
        for _ in range(rows):
            columns = np.sort(rng.choice(30, 6, replace=False))
            values = rng.integers(1, 9, 6) / 4
            label = labels[int(np.argmax(values @ truth[columns]))]
            if path.suffix == ".jsonl":
                row = {f"f{c}": v for c, v in zip(columns, values.tolist(), strict=True)}
                file.write(json.dumps({"label": label, "place": f"p{columns[0]}", **row}) + "\n")
            else:
                cells = " ".join(f"{c}:{v:g}" for c, v in zip(columns, values, strict=True))
                file.write(f"{label} {cells}\n")
    return path


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("rows.svm", (-1, 1)),
        ("rows.svm", (1, 2, 3, 4)),
        ("rows.jsonl", (0, 1)),
        ("rows.jsonl", ("a", "b", "c")),
    ],
)
def test_batches_of_a_stream_are_learned_as_by_the_command_line(
    name: str, labels: tuple[Any, ...], tmp_path: Path
) -> None:
    data = write(tmp_path / name, 3000, labels)
    CommandLine.run("train", data, "-o", tmp_path / "m.son", "-q")
    wanted = Model.load(tmp_path / "m.son")
    whole = OnlineLearner()
    progress = whole.learn_stream(data)
    assert tensors(whole.model) == tensors(wanted)
    assert progress.as_dict() == wanted.progress.as_dict()
    assert whole.model.table == wanted.table
    # By hand, batch after batch; labels of classes are words there.
    by_hand = OnlineLearner()
    with streams.open(data, tokens=True) as stream:
        for batch in stream:
            assert len(by_hand.learn(batch)) == len(batch)
    assert tensors(by_hand.model) == tensors(wanted)
    with streams.open(str(data), tokens=True) as stream:
        raw = np.concatenate([np.atleast_2d(by_hand.predict(batch).T) for batch in stream], axis=1)
    lines = CommandLine.run("predict", data, "-m", tmp_path / "m.son", "--as", "raw")
    heads = [""]
    if wanted.table is not None and wanted.classes > 2:  # numbers stand after their classes
        heads = [f"{label}:" for label in wanted.table.sorted_labels()]
    rows = [map("{}{!r}".format, heads, row) for row in raw.T.tolist()]
    assert lines == "".join(" ".join(row) + "\n" for row in rows)


def test_several_passes_weights_and_columns(tmp_path: Path) -> None:
    data = tmp_path / "clicks.csv"
    rng = np.random.default_rng(0)
    rows = [f"{a},{b},{c},{w}" for a, b, c, w in zip(
        rng.integers(0, 9, 500), rng.choice(["x", "y"], 500), rng.integers(0, 2, 500),
        rng.integers(1, 4, 500), strict=True,
    )]  # fmt: skip
    data.write_text("age,plan,clicked,w\n" + "".join(f"{row}\n" for row in rows))
    more = ["--label", "clicked", "--weight", "w", "--passes", "3"]
    CommandLine.run("train", data, "-o", tmp_path / "m.son", "-q", *more)
    learner = OnlineLearner()
    learner.learn_stream(data, label="clicked", weight="w", passes=3)
    assert tensors(learner.model) == tensors(Model.load(tmp_path / "m.son"))
    assert set(learner.features()) == {"age", "plan=x", "plan=y"}
    # And on with other rows, which the saved model reads in the same way.
    learner.save(tmp_path / "py.son")
    CommandLine.run("train", data, "--from", tmp_path / "py.son", "-o", tmp_path / "on.son", "-q")
    learner.learn_stream(data)
    assert tensors(learner.model) == tensors(Model.load(tmp_path / "on.son"))


@pytest.mark.parametrize(
    ("name", "labels", "weights"),
    [("rows.svm", (0, 1), {1: 20}), ("rows.jsonl", ("no", "yes", "so"), {"yes": 20, "no": 0.5})],
)
def test_class_weights_and_shuffling(
    name: str, labels: tuple[Any, ...], weights: dict[Any, float], tmp_path: Path
) -> None:
    data = write(tmp_path / name, 500, labels)
    more = [word for label, w in weights.items() for word in ("--class-weight", f"{label}={w}")]
    CommandLine.run("train", data, "-o", tmp_path / "m.son", "-q", "--shuffle", 100, *more)
    learner = OnlineLearner()
    learner.learn_stream(data, class_weight=weights, shuffle=100)
    assert tensors(learner.model) == tensors(Model.load(tmp_path / "m.son"))
    plain = OnlineLearner()
    plain.learn_stream(data, shuffle=100)
    assert tensors(plain.model) != tensors(learner.model)


_LEARN = """
import sys
from sonline import OnlineLearner
learner = OnlineLearner()
learner.learn_stream(
    sys.argv[1], passes=2, checkpoint=sys.argv[2], checkpoint_every=2000, resume=True
)
learner.save(sys.argv[3])
"""


@pytest.mark.long
@pytest.mark.parametrize("labels", [(-1, 1), (1, 2, 3)])
def test_kill_in_the_middle_and_resume(labels: tuple[Any, ...], tmp_path: Path) -> None:
    data = write(tmp_path / "rows.svm", 60_000, labels)
    part, output = tmp_path / "part", tmp_path / "m.son"
    command = [sys.executable, "-c", _LEARN, str(data), str(part), str(output)]
    killed = 0
    for _ in range(3):
        before = part.stat().st_mtime_ns if part.exists() else 0
        process = subprocess.Popen(command)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if part.exists() and part.stat().st_mtime_ns != before:
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.005)
        killed += process.wait() == -signal.SIGKILL
    assert killed >= 1
    subprocess.run(command, check=True)
    whole = OnlineLearner()
    progress = whole.learn_stream(data, passes=2)
    resumed = OnlineLearner.load(output)
    assert tensors(resumed.model) == tensors(whole.model)
    assert resumed.progress.as_dict() == progress.as_dict()
    CommandLine.run("train", data, "--passes", 2, "-o", tmp_path / "c.son", "-q")
    assert tensors(Model.load(tmp_path / "c.son")) == tensors(whole.model)


def test_invalid_options_of_a_stream(tmp_path: Path) -> None:
    data = write(tmp_path / "rows.svm", 100)
    learner = OnlineLearner()
    with pytest.raises(ParameterError, match="resume=True needs checkpoint"):
        learner.learn_stream(data, resume=True)
    with pytest.raises(ParameterError, match="checkpoint_every needs checkpoint"):
        learner.learn_stream(data, checkpoint_every=5)
    with pytest.raises(ParameterError, match=r"there is no option 'holdout'.*on_error"):
        learner.learn_stream(data, holdout=10)
    for bad in (-1, float("nan"), "much"):
        with pytest.raises(ParameterError, match=r"the weight of class 1 is .*from 0 to"):
            learner.learn_stream(data, class_weight={1: bad})
    with pytest.raises(ParameterError, match="on_error must be one of 'stop', 'skip'; got 'drop'"):
        learner.learn_stream(data, on_error="drop")
    with pytest.raises(ParameterError, match="shuffle must be an integer"):
        learner.learn_stream(data, shuffle=-5)
    with pytest.raises(InvalidInputError, match="y is missing"):
        learner.learn(np.eye(3))
    (tmp_path / "bad.svm").write_text("1 1:1\n2 1:1\nnan 1:1\n")
    with pytest.raises(DataFormatError, match=r"bad\.svm:3.*finite number or a word"):
        learner.learn_stream(tmp_path / "bad.svm", classes="multi")
    (tmp_path / "other.svm").write_text("1 1:1\n-1 1:1\n7 1:1\n")
    with pytest.raises(DataFormatError, match=r"other\.svm:3"):
        learner.learn_stream(tmp_path / "other.svm", classes="binary")
    assert learner.stats()["rounds"] == 0


def test_rows_learned_by_other_threads_during_a_stream_are_kept(tmp_path: Path) -> None:
    """The stream trained a new model, which then took the place of the one that they knew."""
    data = tmp_path / "rows.svm"
    os.mkfifo(data)
    learner = OnlineLearner()
    with ThreadPoolExecutor(1) as pool:
        training = pool.submit(learner.learn_stream, data, classes="binary")
        with data.open("w") as pipe:
            pipe.write("1 0:1\n-1 1:1\n" * 1000)
            pipe.flush()
            deadline = time.monotonic() + 60
            while not learner.stats()["rounds"] and time.monotonic() < deadline:
                time.sleep(0.01)
            learner.learn(np.eye(3), [1, -1, 1])
        training.result()
    assert learner.stats()["rounds"] == 2003
    assert learner.features() == [0, 1, 2]


def test_a_stream_that_is_interrupted_twice_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second Ctrl-C does not wait for the end of the batch."""
    data = write(tmp_path / "rows.jsonl", 3000, ("a", "b", "c"))
    learner = OnlineLearner()
    learn = Model.learn_batch

    def interrupted(self: Model, *arguments: Any) -> Any:
        learned = learn(self, *arguments)
        if self.stats()["rounds"] >= 2000:
            raise KeyboardInterrupt
        return learned

    monkeypatch.setattr(Model, "learn_batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learner.learn_stream(data)
    assert 2000 <= learner.stats()["rounds"] <= 3000
    assert learner.classes == ["a", "b", "c"]
    assert "place" in learner.model.reading.columns


@pytest.mark.parametrize(
    "name", ["text", "ignore", "na_values", "amounts", "ngrams", "interactions"]
)
def test_a_name_is_no_sequence_of_names(name: str, tmp_path: Path) -> None:
    """Its letters were taken for columns, and the column was not left out."""
    (tmp_path / "rows.csv").write_text("id,a,label\n1,2,1\n2,1,0\n")
    with pytest.raises(ParameterError, match=f"{name} must be a sequence of names.*'id'"):
        OnlineLearner().learn_stream(tmp_path / "rows.csv", **{name: "id"})


@pytest.mark.parametrize("file", ["rows.csv", "rows.svm"])
def test_other_values_of_on_error(file: str, tmp_path: Path) -> None:
    """Tables took each of them for "skip"."""
    (tmp_path / "rows.csv").write_text("a,label\n1,1\n2\n")
    (tmp_path / "rows.svm").write_text("1 1:1\n2 x\n")
    with pytest.raises(ParameterError, match="on_error must be one of 'stop', 'skip'; got 'Stop'"):
        OnlineLearner().learn_stream(tmp_path / file, on_error="Stop")


def test_files_without_rows_are_read_once(tmp_path: Path) -> None:
    """With many passes it read nothing until it was killed: Ctrl-C waited for the last of them."""
    (tmp_path / "empty.svm").write_text("\n")
    with pytest.raises(InvalidInputError, match="no rows to learn from"):
        OnlineLearner().learn_stream(tmp_path / "empty.svm", passes=10**12)


def test_batches_must_be_used_from_the_first_one_on(tmp_path: Path) -> None:
    """Names come with the batch that has them first."""
    rows = [json.dumps({"label": 1, f"name {number}": 1.0, "pad": 1}) for number in range(20_000)]
    (tmp_path / "names.jsonl").write_text("\n".join(rows))
    with streams.open(tmp_path / "names.jsonl") as stream:
        first, second, *_ = stream
    with pytest.raises(InvalidInputError, match="from the first one on"):
        OnlineLearner().learn(second)
    learner = OnlineLearner()
    learner.learn_one({"before": 1.0}, 1)  # ids of the stream are not those of the model
    learner.learn(first)
    learner.learn(second)
    assert len(learner.features()) == 1 + len(first) + len(second) + 1
    assert learner.predict_one({"name 3": 1.0}) != learner.bias


def test_validation_keeps_the_model_that_the_command_line_keeps(tmp_path: Path) -> None:
    lines = write(tmp_path / "all.svm", 300).read_text().splitlines(keepends=True)
    data, held = tmp_path / "train.svm", tmp_path / "test.svm"
    data.write_text("".join(lines[:60]))
    held.write_text("".join(lines[60:]))
    command = ["train", data, "--validation", held, "--passes", 30, "--patience", 2]
    CommandLine.run(*command, "-o", tmp_path / "m.son", "-q")
    remaining = Model.load(tmp_path / "m.son")
    learner = OnlineLearner()
    learner.learn_stream(data, passes=30, validation=held, patience=2)
    assert tensors(learner.model) == tensors(remaining)
    best = remaining.run["validation"]["best_pass"]
    assert best < 30
    same = OnlineLearner()
    same.learn_stream(data, passes=best)
    assert same.weights() == learner.weights()
    with pytest.raises(ParameterError, match="patience must be an integer of at least 1"):
        learner.learn_stream(data, validation=held, patience=0)
    with pytest.raises(FileNotFoundError, match="no file"):
        learner.learn_stream(data, validation=tmp_path / "none.svm")


def test_no_file_that_is_read_is_overwritten(tmp_path: Path) -> None:
    data = write(tmp_path / "rows.svm", 100)
    other = write(tmp_path / "other.svm", 50, seed=2)
    best = write(tmp_path / "c.son.best", 50, seed=3)
    before = [file.read_bytes() for file in (data, other, best)]
    learner = OnlineLearner()
    for checkpoint, validation in ((data, None), (other, other), (tmp_path / "c.son", best)):
        with pytest.raises(ParameterError, match=r"checkpoint .*this file is read; name another"):
            learner.learn_stream(
                data,
                checkpoint=checkpoint,
                validation=validation,
                format="svmlight",
            )
        if validation is not None:
            command = ["train", data, "--checkpoint", checkpoint, "--validation", validation]
            with pytest.raises(subprocess.CalledProcessError) as failed:
                CommandLine.run(*command, "--format", "svmlight")
            assert "this file is read" in failed.value.stderr
    assert [file.read_bytes() for file in (data, other, best)] == before
    assert not learner.stats()["rounds"]


def test_a_checkpoint_that_cannot_be_written_is_an_error_before_learning(tmp_path: Path) -> None:
    data = write(tmp_path / "rows.svm", 100)
    learner = OnlineLearner()
    with pytest.raises(IsADirectoryError, match=r"checkpoint .* is a folder"):
        learner.learn_stream(data, checkpoint=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"checkpoint .*there is no folder"):
        learner.learn_stream(data, checkpoint=tmp_path / "none" / "c.son")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ParameterError, match="cannot resume from a pipe"):
        learner.learn_stream(data, checkpoint=tmp_path / "pipe")
    assert not learner.stats()["rounds"]


def test_weights_of_classes_that_are_not_there(tmp_path: Path) -> None:
    words = tmp_path / "words.csv"
    words.write_text("x,label\n" + "1,yes\n2,no\n" * 20)
    with pytest.warns(UserWarning, match="class_weight: no row has the label Yes"):
        OnlineLearner().learn_stream(words, class_weight={"Yes": 5})
    with pytest.raises(ParameterError, match="'Yes' is not among the classes yes, no"):
        OnlineLearner().learn_stream(words, classes=["yes", "no"], class_weight={"Yes": 5})
    numbers = tmp_path / "numbers.csv"
    numbers.write_text("x,label\n" + "1,1\n2,0\n1,0\n" * 20)
    by_text, by_number = OnlineLearner(), OnlineLearner()
    by_text.learn_stream(numbers, class_weight={"0": 9})
    by_number.learn_stream(numbers, class_weight={0: 9})
    assert tensors(by_text.model) == tensors(by_number.model)
    with pytest.raises(ParameterError, match="2 is not among the classes -1, 0, 1"):
        OnlineLearner().learn_stream(numbers, class_weight={2: 9})
    with pytest.raises(ParameterError, match=r"class_weight .*this is regression"):
        OnlineLearner(loss="squared").learn_stream(numbers, class_weight={1: 9})


def test_options_of_the_wrong_type(tmp_path: Path) -> None:
    data = tmp_path / "a.csv"
    data.write_text("x,label\n" + "1,1\n2,0\n" * 20)
    with pytest.raises(ParameterError, match=r"class_weight must be a mapping.*'balanced'"):
        OnlineLearner().learn_stream(data, class_weight="balanced")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="label must be the name of a column, got 4"):
        OnlineLearner().learn_stream(data, label=4)  # type: ignore[arg-type]
