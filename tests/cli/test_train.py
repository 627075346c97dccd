"""`sonline train` and the commands that use its models, through the real executable."""

import bz2
import gzip
import json
import lzma
import os
import pty
import re
import signal
import subprocess

import numpy as np
import pytest

from cli.conftest import SONLINE, identity, svmlight, tensors
from sonline import OnlineLearner
from sonline.parameters import Parameters


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(svmlight(3000))
    return path


def test_the_table_has_a_line_at_each_power_of_two_and_a_summary_follows(sonline, data):
    done = sonline("train", data, "-o", "m.son")
    assert "svmlight (by its name)" in done.stderr
    counters = [line.split()[3] for line in done.stderr.splitlines()[3:]]
    assert counters == [str(2**k) for k in range(12)]
    assert "3,000" in done.stdout
    assert "error" in done.stdout


def test_json_is_alone_on_standard_output_and_learning_worked(sonline, data):
    done = sonline("train", data, "-o", "m.son", "--json")
    result = json.loads(done.stdout)
    assert result["rows"] == 3000
    assert result["task"] == "binary"
    assert result["error"] < 0.2
    assert result["features"] == 61
    quiet = sonline("train", data, "-o", "m.son", "--quiet")
    assert quiet.stdout == quiet.stderr == ""


@pytest.mark.long
def test_every_format_and_compression_gives_the_same_model(sonline, data, tmp_path):
    sonline("train", data, "-o", "m.son", "-q")
    expected = tensors(tmp_path / "m.son")
    for suffix in ("vw", "csv", "tsv", "jsonl", "parquet", "arrow"):
        sonline("convert", data, "-o", f"again.{suffix}", "-q")
        sonline("train", f"again.{suffix}", "-o", "n.son", "-q", "--features", "index")
        assert tensors(tmp_path / "n.son") == expected, suffix
    text = data.read_bytes()
    import zstandard  # noqa: PLC0415 - an extra

    for suffix, pack in {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": zstandard.compress,
    }.items():
        (tmp_path / f"packed.svm.{suffix}").write_bytes(pack(text))
        sonline("train", f"packed.svm.{suffix}", "-o", "n.son", "-q")
        assert tensors(tmp_path / "n.son") == expected, suffix


def test_pairs_without_curves_are_a_contradiction(sonline, data):
    done = sonline("train", "a.svm", "--pairs", "--no-curves", code=2)
    assert "--pairs and --no-curves: choose one of them" in done.stderr


def test_pairs_of_columns(sonline, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    lines = [",".join(f"{value:.4f}" for value in [*row, row[0] * row[2]]) for row in X]
    (tmp_path / "a.csv").write_text("a,b,c,label\n" + "\n".join(lines) + "\n")
    sonline("train", "a.csv", "--loss", "squared", "--pairs", "-o", "a.son", "-q")
    pairs = OnlineLearner.load(tmp_path / "a.son").all_pairs()
    assert pairs[0].features == ("a", "c")
    assert "a × c" in sonline("explain", "a.csv", "-m", "a.son").stdout


def test_names_give_the_same_model_in_every_format_that_has_them(sonline, tmp_path):
    rows = [
        {"label": 1 if n % 3 else -1, "colour": "red" if n % 2 else "blue", "size": n % 5 / 4}
        for n in range(400)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sonline("train", "a.jsonl", "--no-curves", "-o", "a.son", "-q")
    for suffix in ("vw", "csv", "parquet"):
        sonline("convert", "a.jsonl", "-o", f"b.{suffix}", "-q")
        sonline("train", f"b.{suffix}", "--no-curves", "-o", "b.son", "-q")
        assert tensors(tmp_path / "b.son") == tensors(tmp_path / "a.son"), suffix
    shown = json.loads(sonline("inspect", "a.son", "--json").stdout)
    assert {entry["feature"] for entry in shown["largest_weights"]} == {
        "colour=red",
        "colour=blue",
        "size",
    }


def test_hashed_names_are_those_of_the_library(sonline, tmp_path):
    from sonline import OnlineLearner  # noqa: PLC0415 - only here

    names = [f"w{n % 37}" for n in range(200)]
    text = "".join(f"{1 if n % 2 else -1} | {name}\n" for n, name in enumerate(names))
    (tmp_path / "a.vw").write_text(text)
    sonline("train", "a.vw", "-o", "a.son", "-q", "--hash-bits", 10, "--seed", 3)
    learner = OnlineLearner(hash_bits=10, seed=3)
    learner.learn([{name: 1.0} for name in names], [1 if n % 2 else -1 for n in range(200)])
    saved = tensors(tmp_path / "a.son")
    assert saved["0.blocks"] == learner.__getstate__()[1]["0.blocks"].tobytes()


def test_several_files_globs_and_pipes_are_one_stream(sonline, data, tmp_path):
    sonline("train", data, "-o", "m.son", "-q")
    lines = data.read_text().splitlines(keepends=True)
    (tmp_path / "part1.svm").write_text("".join(lines[:1000]).rstrip("\n"))  # no newline at the end
    (tmp_path / "part2.svm").write_text("\ufeff" + "".join(lines[1000:]))
    sonline("train", "part*.svm", "-o", "n.son", "-q")
    assert tensors(tmp_path / "n.son") == tensors(tmp_path / "m.son")
    sonline("train", "-", "-o", "p.son", "-q", input=data.read_text())
    assert tensors(tmp_path / "p.son") == tensors(tmp_path / "m.son")


def test_limit_and_from_are_the_whole(sonline, data, tmp_path):
    sonline("train", data, "-o", "m.son", "-q")
    sonline("train", data, "-o", "part.son", "-q", "--limit", 1234)
    result = sonline("train", data, "-o", "part.son", "--json", "--resume").stdout
    assert json.loads(result)["rows"] == 3000
    assert identity(tmp_path / "part.son") == identity(tmp_path / "m.son")
    lines = data.read_text().splitlines(keepends=True)
    (tmp_path / "one.svm").write_text("".join(lines[:700]))
    (tmp_path / "two.svm").write_text("".join(lines[700:]))
    sonline("train", "one.svm", "-o", "one.son", "-q")
    sonline("train", "two.svm", "-o", "two.son", "-q", "--from", "one.son")
    assert tensors(tmp_path / "two.son") == tensors(tmp_path / "m.son")


def test_predictions_made_while_training_are_those_of_the_library(sonline, data, tmp_path):
    from sklearn.datasets import load_svmlight_file  # noqa: PLC0415 - only here

    from sonline import OnlineLearner  # noqa: PLC0415

    sonline("train", data, "-o", "m.son", "-q", "--predictions", "p.txt")
    X, y = load_svmlight_file(str(data), zero_based=True, dtype=np.float32)
    before = OnlineLearner().learn(X, y)
    written = [float(line) for line in (tmp_path / "p.txt").read_text().splitlines()]
    assert written == before.tolist()


def test_passes_and_holdout(sonline, data):
    done = sonline("train", data, "-o", "m.son", "--json", "--passes", 3, "--holdout", 5)
    result = json.loads(done.stdout)
    assert [summary["rows"] for summary in result["passes"]] == [3000] * 3
    losses = [summary["holdout_loss"] for summary in result["passes"]]
    assert losses[2] < losses[0]


def test_classes_are_recognised_and_may_emerge(sonline, tmp_path):
    (tmp_path / "c.svm").write_text(svmlight(2000, classes=4))
    result = json.loads(sonline("train", "c.svm", "-o", "c.son", "--json").stdout)
    assert result["task"] == "classes"
    assert sorted(result["classes"]) == [1, 2, 3, 4]
    assert result["error"] < 0.4
    evaluation = json.loads(sonline("evaluate", "c.svm", "-m", "c.son", "--json").stdout)
    labels = sonline("predict", "c.svm", "-m", "c.son", "--as", "label").stdout.split()
    truth = [line.split()[0] for line in (tmp_path / "c.svm").read_text().splitlines()]
    wrong = sum(a != b for a, b in zip(labels, truth, strict=True))
    assert evaluation["error"] == pytest.approx(wrong / 2000)
    shares = sonline("predict", "c.svm", "-m", "c.son").stdout.splitlines()[0].split()
    assert [share.partition(":")[0] for share in shares] == ["1", "2", "3", "4"]
    assert sum(float(share.partition(":")[2]) for share in shares) == pytest.approx(1)
    report = json.loads(sonline("predict", "c.svm", "-m", "c.son", "--json").stdout.splitlines()[0])
    assert list(report["probability"]) == ["1", "2", "3", "4"]


def test_words_are_labels_too(sonline, tmp_path):
    text = "".join(
        f"{'spam' if n % 2 else 'ham'} | {'buy' if n % 2 else 'hello'}\n" for n in range(99)
    )
    (tmp_path / "m.vw").write_text(text)
    sonline("train", "m.vw", "-o", "m.son", "-q", "--classes", "ham,spam")
    done = sonline(
        "predict", "-", "-m", "m.son", "--as", "label", "--format", "vw", input="| buy\n"
    )
    assert done.stdout == "spam\n"


def test_numbers_to_be_predicted_are_not_taken_for_classes(sonline, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    text = "".join(f"{x @ [1, 2, 3]:.4f} 1:{x[0]:.4f} 2:{x[1]:.4f} 3:{x[2]:.4f}\n" for x in X)
    (tmp_path / "r.svm").write_text(text)
    assert "--loss squared" in sonline("train", "r.svm", "-o", "r.son", code=2).stderr
    sonline("train", "r.svm", "-o", "r.son", "-q", "--loss", "squared")
    evaluation = json.loads(sonline("evaluate", "r.svm", "-m", "r.son", "--json").stdout)
    assert evaluation["r2"] > 0.99


def test_evaluate_agrees_with_scikit_learn(sonline, data):
    from sklearn.metrics import log_loss, roc_auc_score  # noqa: PLC0415 - only here

    sonline("train", data, "-o", "m.son", "-q", "--limit", 1000)
    evaluation = json.loads(sonline("evaluate", data, "-m", "m.son", "--json").stdout)
    chances = [float(line) for line in sonline("predict", data, "-m", "m.son").stdout.split()]
    truth = [int(line.split()[0]) for line in data.read_text().splitlines()]
    assert evaluation["log_loss"] == pytest.approx(log_loss(truth, chances))
    assert evaluation["auc"] == pytest.approx(roc_auc_score(truth, chances), abs=1e-3)
    wrong = [(p > 0.5) != (y > 0) for p, y in zip(chances, truth, strict=True)]
    assert evaluation["error"] == pytest.approx(np.mean(wrong))
    progressive = sonline("evaluate", data, "-m", "m.son", "--json", "--progressive").stdout
    assert json.loads(progressive)["rows"] == 3000


def test_bad_rows_stop_with_their_place_or_are_counted_and_kept(sonline, data, tmp_path):
    lines = data.read_text().splitlines(keepends=True)
    lines[1500] = "1 3:x4\n"
    lines[1700] = "1 3:1e999\n"
    data.write_text("".join(lines))
    failed = sonline("train", data, "-o", "m.son", code=3)
    assert "data.svm:1501:5:" in failed.stderr
    assert "x4" in failed.stderr
    done = sonline(
        "train", data, "-o", "m.son", "--json", "--on-error", "skip", "--bad-rows", "bad.txt"
    )
    assert json.loads(done.stdout)["skipped"] == 2
    bad = "1 3:x4\n1 3:1e999\n"
    assert (tmp_path / "bad.txt").read_text() == bad
    for command in (
        ["predict", data, "-m", "m.son", "-o", "p.txt"],
        ["evaluate", data, "-m", "m.son"],
        ["evaluate", data, "-m", "m.son", "--progressive"],
        ["convert", data, "-o", "data.vw"],
        ["convert", data, "-o", "data.csv"],
    ):
        (tmp_path / "bad.txt").unlink()
        done = sonline(*command, "--on-error", "skip", "--bad-rows", "bad.txt")
        assert (tmp_path / "bad.txt").read_text() == bad
        assert re.search("skipped +2|2 bad", done.stdout + done.stderr)


def test_nothing_but_bad_rows_is_no_model(sonline, tmp_path):
    (tmp_path / "all.svm").write_text("1 3:x4\n1 5:nan\n")
    options = ["--on-error", "skip", "--bad-rows", "bad.txt"]
    failed = sonline("train", "all.svm", "-o", "m.son", *options, code=3)
    assert "no rows to learn from: all 2 are bad" in failed.stderr
    assert (tmp_path / "bad.txt").read_text() == "1 3:x4\n1 5:nan\n"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nowhere.svm"], 3, "no file 'nowhere.svm'"),
        (["data.svm", "--sketch-size", "-3"], 2, "sketch_size"),
        (["data.svm", "--checkpoint-every", "5"], 2, "--checkpoint FILE"),
        (["data.svm", "--hash-bits", "many"], 2, "integer"),
        (["data.svm", "--holdout", "1"], 2, "holdout"),
        (["-", "--passes", "2"], 2, "standard input"),
        (["nothing"], 3, "'nothing' is a folder"),
        (["data.svm", "other.csv"], 2, "other.csv is csv (by its name), but data.svm is svmlight"),
        (["data.svm", "--label", "y"], 2, "(--label) names a column, but data.svm is svmlight"),
        (["nowhere://file.svm"], 3, "nowhere://file.svm: cannot be read: Protocol not known"),
        (["memory://file.svm"], 3, "no file 'memory://file.svm'"),
    ],
)
def test_errors_have_a_message_and_an_exit_code(sonline, data, arguments, code, words):
    (data.parent / "other.csv").write_text("label,x\n1,2\n")
    (data.parent / "nothing").mkdir()
    assert words in sonline("train", *arguments, "-o", "m.son", code=code, input="").stderr


def test_a_damaged_model_is_refused(sonline, data, tmp_path):
    sonline("train", data, "-o", "m.son", "-q")
    raw = bytearray((tmp_path / "m.son").read_bytes())
    raw[-5] ^= 1
    (tmp_path / "m.son").write_bytes(raw)
    assert "damaged" in sonline("predict", data, "-m", "m.son", code=4).stderr


def test_inspect_takes_the_model_as_the_other_commands_do(sonline, data):
    sonline("train", data, "-o", "m.son", "-q")
    shown = sonline("inspect", "m.son").stdout
    assert sonline("inspect", "-m", "m.son").stdout == shown
    assert sonline("inspect", "--model", "m.son").stdout == shown
    for arguments in ([], ["m.son", "-m", "m.son"]):
        refused = sonline("inspect", *arguments, code=2)
        assert "sonline inspect MODEL" in refused.stderr


def test_large_labels_keep_their_exponent(sonline, tmp_path):
    (tmp_path / "m.csv").write_text(
        "a,label\n" + "1,1000399.3493858154\n2,1000569.7503500677\n" * 4
    )
    shown = sonline("train", "m.csv", "--loss", "squared").stderr
    label, predicted = shown.splitlines()[-1].split()[-3:-1]
    assert float(label) == pytest.approx(1000500, abs=100)
    assert float(predicted) == pytest.approx(1000500, abs=100)


def test_inspect_draws(sonline, data, tmp_path):
    sonline("train", data, "-o", "m.son", "-q")
    sonline("inspect", "m.son", "--plot", "m.html", "--quiet")
    page = (tmp_path / "m.html").read_text()
    assert "<svg" in page
    assert f"sketch_size={Parameters().sketch_size}" in page
    sonline("inspect", "m.son", "--plot", "m.png", "--quiet")
    assert (tmp_path / "m.png").read_bytes().startswith(b"\x89PNG")


def on_a_terminal(*command, cwd):
    """Run a command whose standard error is a terminal; return what it showed, and its output."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    process = subprocess.Popen(
        [SONLINE, *command], stdout=subprocess.PIPE, stderr=theirs, env=environment, cwd=cwd
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        shown += piece
    output = process.communicate()[0]
    os.close(ours)
    assert process.returncode == 0
    return shown.decode(), output


def test_the_live_display_on_a_terminal(data, tmp_path):
    text, summary = on_a_terminal("train", data, "-o", "m.son", cwd=tmp_path)
    assert "\x1b[" in text
    for words in ("rows/s", "3,000 rows", "100 %", "since last", "features", "sweeps", "elapsed"):
        assert words in text, words
    assert "counter" not in text  # the table is for pipes
    assert b"3,000" in summary


def test_other_commands_show_their_progress_on_a_terminal(data, sonline, tmp_path):
    sonline("train", data, "-o", "m.son", "-q")
    for command in (
        ["predict", data, "-m", "m.son"],
        ["evaluate", data, "-m", "m.son"],
        ["convert", data, "-o", "a.vw"],
    ):
        text, output = on_a_terminal(*command, cwd=tmp_path)
        for words in ("rows/s", "3,000 rows", "100 %", "elapsed"):
            assert words in text, (command, words)
        assert "sweeps" not in text
        assert output or command[0] == "convert"
        assert "rows/s" not in on_a_terminal(*command, "-q", cwd=tmp_path)[0]


@pytest.mark.parametrize("source", ["-", "pipe"])
def test_an_interrupted_run_saves_and_says_how_to_continue(data, tmp_path, source):
    os.mkfifo(tmp_path / "pipe")
    process = subprocess.Popen(
        [SONLINE, "train", source, "-o", "m.son", "--format", "svmlight"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process, process.stdin if source == "-" else (tmp_path / "pipe").open("wb") as writing:
        writing.write(data.read_bytes())
        writing.flush()
        seen = b""
        while b" 1024 " not in seen:
            line = process.stderr.readline()
            assert line, seen.decode()
            seen += line
        process.send_signal(signal.SIGINT)
        # The pipe stays open: it is the signal that ends the run, not the end of the data.
        assert process.wait(timeout=120) == 130
        rest = process.stderr.read().decode()
    assert "--resume" in rest
    assert (tmp_path / "m.son").exists()


@pytest.mark.memory
def test_memory_does_not_grow_with_the_file(sonline, tmp_path):
    block = svmlight(5000).encode()
    peaks = []
    for copies in (10, 200):
        path = tmp_path / f"{copies}.svm"
        path.write_bytes(block * copies)
        code = (
            "import re, sys; sys.argv = ['sonline', *sys.argv[1:]]\n"
            "from sonline.cli import main\n"
            "try: main()\n"
            "except SystemExit: pass\n"
            "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
        )
        python = SONLINE.with_name("python")
        done = subprocess.run(
            [python, "-c", code, "train", path, "-o", tmp_path / "m.son", "-q"],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] < 200
    assert peaks[1] - peaks[0] < 40  # the larger file has 65 MB more


@pytest.mark.parametrize("option", ["--ignore", "--text"])
def test_a_misspelt_column_is_an_error(sonline, tmp_path, option):
    (tmp_path / "a.csv").write_text("user_id,price,label\n7,2.5,1\n8,3.5,-1\n")
    done = sonline("train", "a.csv", option, "user_ld", code=2)
    assert "no column 'user_ld'; did you mean 'user_id'? (there are user_id, price" in done.stderr
    assert "warning" not in sonline("train", "a.csv", option, "user_id", "-o", "m").stderr


def test_files_may_lack_a_column_that_a_model_leaves_out(sonline, tmp_path):
    (tmp_path / "a.csv").write_text("user_id,price,label\n7,2.5,1\n8,3.5,-1\n")
    (tmp_path / "b.csv").write_text("price,label\n2.5,1\n3.5,-1\n")
    sonline("train", "a.csv", "b.csv", "--ignore", "user_id", "-o", "m")
    for command in (["predict", "b.csv", "-m", "m"], ["evaluate", "b.csv", "-m", "m"]):
        sonline(*command)
    sonline("train", "b.csv", "--from", "m", "-o", "n")


def test_a_column_that_no_json_line_has_is_warned_of(sonline, tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"user": {"id": 7}, "price": 2.5, "label": 1}\n{"price": 3.5, "label": -1}\n'
    )
    done = sonline("train", "a.jsonl", "--ignore", "user.ld", "--text", "prize")
    assert "warning: no row has the column 'prize', 'user.ld', which an option names" in done.stderr
    assert "warning" not in sonline("train", "a.jsonl", "--ignore", "user.id").stderr
