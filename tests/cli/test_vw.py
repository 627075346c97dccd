"""`sonline vw`: the options of Vowpal Wabbit, with the same meaning."""

import importlib.util
import json
import lzma
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli.conftest import identity, svmlight, tensors
from sonline import OnlineLearner, persistence, streams
from sonline.cli.vw import LOSSES, parse

OJA = ("--OjaNewton", "--sketch_size")
PLAIN = (*OJA, 0)  # without directions the comparison is exact: sketches start differently


def vw_text(rows: int, *, seed: int = 0, weights: bool = False) -> str:
    """Return rows in two namespaces, with labels -1 and 1."""
    rng = np.random.default_rng(seed)
    lines = []
    for number, line in enumerate(svmlight(rows, seed=seed).splitlines()):
        label, *pairs = line.split()
        weight = f" {rng.integers(1, 6) / 2:g}" if weights else ""
        lines.append(
            f"{label}{weight} 'r{number}|a {' '.join(pairs[:5])} |b {' '.join(pairs[5:])}\n"
        )
    return "".join(lines)


def derivative(loss: str, z: float, y: float, tau: float) -> float:
    if loss == "squared":
        return 2 * (z - y)
    if loss == "logistic":
        return -y / (1 + math.exp(y * z))
    if loss == "hinge":
        return -y if y * z < 1 else 0.0
    return 0.0 if z == y else -tau if z < y else 1 - tau


def by_hand(text: str, loss: str, alpha: float, tau: float = 0.5) -> list[float]:
    """Return the predictions of --OjaNewton --sketch_size 0, as Vowpal Wabbit's source makes them.

    oja_newton.cc: half of the derivative is the gradient g; squares of g x are summed for each
    feature from 0.1 on and scale it; predictions are clipped to the labels seen, and to 0.
    """
    w: dict[str, float] = {}
    squares: dict[str, float] = {}
    low, high = (-50.0, 50.0) if loss == "logistic" else (0.0, 0.0)
    out = []
    for line in text.splitlines():
        head, *spaces = line.split("|")
        y, weight = float(head.split()[0]), float(head.split()[1])
        row = {"constant": 1.0}
        for space in spaces:
            name, *pairs = space.split()
            row |= {f"{name}^{i}": float(v) for i, v in (pair.split(":") for pair in pairs)}
        z = sum(w.get(f, 0.0) * x / math.sqrt(squares.get(f, 0.1)) for f, x in row.items())
        out.append(min(max(z, low), high))
        if loss != "logistic":
            low, high = min(low, y), max(high, y)
        g = weight * derivative(loss, min(max(z, low), high), y, tau) / 2
        for f, x in row.items():
            squares[f] = squares.get(f, 0.1) + (g * x) ** 2
            w[f] = w.get(f, 0.0) - g * x / math.sqrt(squares[f]) / alpha
    return out


@pytest.mark.parametrize("loss", LOSSES)
def test_without_directions_it_is_the_arithmetic_of_vowpal_wabbit(sonline, tmp_path, loss):
    text = vw_text(500, weights=True)
    (tmp_path / "d.vw").write_text(text)
    done = sonline(
        *("vw", "d.vw", *PLAIN, "-p", "p.txt", "--loss_function", loss, "--alpha_inverse", 0.5)
    )
    assert "not saved" in done.stdout  # no -f: only the loss is wanted
    written = [line.split() for line in (tmp_path / "p.txt").read_text().splitlines()]
    assert [tag for _, tag in written] == [f"r{n}" for n in range(500)]
    expected = by_hand(text, loss, alpha=2.0)
    np.testing.assert_allclose([float(z) for z, _ in written], expected, rtol=1e-4, atol=1e-4)


OPTIONS = {
    "squared": (),
    "logistic": ("--loss_function", "logistic"),
    "hinge": ("--loss_function", "hinge", "--noconstant"),
    "quantile": ("--loss_function", "quantile", "--quantile_tau", "0.3"),
    "alpha": ("--alpha_inverse", "3", "-b", "22"),
    "plain": ("--alpha", "100", "--normalize", "false"),
    # Larger steps overshoot on so many features, and differences in rounding grow.
    "products": ("-q", "ab", "-b", "24", "--alpha_inverse", "0.3"),
    "own products": ("-q", "bb", "-b", "24", "--loss_function", "logistic"),
    "grams": ("--ngram", "2", "-b", "24", "--loss_function", "logistic"),
    "grams that skip": (
        "--ngram=a3",
        "--skips=a2",
        "--ngram=b2",
        "-b",
        "26",
        "--alpha_inverse=0.1",
    ),
    "products of grams": ("--ngram", "a2", "-q", "ab", "-b", "26", "--alpha_inverse", "0.3"),
    "passes": ("--passes", "3", "-c", "-k", "--cache_file", "d.cache"),
    "no holdout": ("--passes", "2", "--holdout_off", "-c", "-k", "--cache_file", "d.cache"),
}


@pytest.mark.skipif(
    importlib.util.find_spec("vowpalwabbit") is None,
    reason="vowpalwabbit is in the extra docs, which make venv installs",
)
@pytest.mark.parametrize("case", OPTIONS)
def test_predictions_are_those_of_vowpal_wabbit_itself(sonline, tmp_path, case):
    (tmp_path / "d.vw").write_text(vw_text(2000, weights=case in ("squared", "logistic")))
    options = ["-d", "d.vw", *map(str, PLAIN), *OPTIONS[case]]
    theirs = subprocess.run(
        [sys.executable, "-m", "vowpalwabbit", *options, "-p", "theirs.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    ours = sonline("vw", *options, "-p", "ours.txt")

    def numbers(name):
        lines = (tmp_path / name).read_text().splitlines()
        return [float(line.split()[0]) for line in lines]

    np.testing.assert_allclose(numbers("ours.txt"), numbers("theirs.txt"), rtol=1e-3, atol=1e-3)
    if "--passes" not in options:
        (average,) = [
            line.split("=")[1] for line in theirs.stderr.splitlines() if "average loss" in line
        ]
        (shown,) = [line for line in ours.stdout.splitlines() if line.startswith("loss ")]
        # A row whose label widens the range of the labels is counted otherwise there.
        assert float(shown.split()[1]) == pytest.approx(float(average), abs=1e-3)


THEIR_DATA = Path(__file__).parent / "vowpal_wabbit"


@pytest.mark.parametrize("bits", [18, 28])
def test_the_loss_is_that_of_the_second_order_test_of_vowpal_wabbit(sonline, tmp_path, bits):
    """Test 134 of its RunTests: average loss 0.225511, and its table of losses."""
    text = lzma.decompress((THEIR_DATA / "0001.dat.xz").read_bytes())
    (tmp_path / "0001.dat").write_bytes(text)
    done = sonline("vw", *PLAIN, "-d", "0001.dat", "-b", bits)
    assert "loss            0.225511 (squared" in done.stdout
    table = [line.split() for line in done.stderr.splitlines() if line.startswith(" 0.")]
    averages = {int(row[3]): row[0] for row in table}
    assert averages[8] == "0.405220"
    assert averages[64] == "0.297003"
    assert averages[128] == "0.276817"


def test_the_first_row_of_a_regression_counts(sonline, tmp_path):
    """The loss is that of the predictions written, which are Vowpal Wabbit's."""
    data = THEIR_DATA / "0002_25.dat"
    done = sonline("vw", *PLAIN, "-d", data, "-p", "p.txt")
    labels = np.array([float(line.split()[0]) for line in data.read_text().splitlines()])
    words = [line.split() for line in (tmp_path / "p.txt").read_text().splitlines()]
    predicted = np.array([float(number) for number, _ in words])
    theirs = {5: 0.0, 6: 0.593261, 7: 0.732510, 22: 0.373988, 24: 0.732510}
    assert {row: round(float(predicted[row]), 6) for row in theirs} == theirs
    loss = ((predicted - labels) ** 2).mean()
    assert f"loss            {loss:.6f}" in done.stdout
    assert loss == pytest.approx(0.070258, abs=1e-6)


@pytest.mark.skipif(
    importlib.util.find_spec("vowpalwabbit") is None,
    reason="vowpalwabbit is in the extra docs, which make venv installs",
)
def test_integers_of_a_namespace_do_not_collide(sonline, tmp_path):
    """As in Vowpal Wabbit, 13 of |words is a number behind the place of words at any -b."""
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(600):
        numbers = rng.choice(5000, 40, replace=False)
        label = 1 if (numbers % 7 == 0).sum() > 5 else -1
        lines.append(f"{label} |words " + " ".join(f"{n}:0.25" for n in numbers) + "\n")
    (tmp_path / "d.vw").write_text("".join(lines))
    options = ["-d", "d.vw", "--OjaNewton", "--sketch_size", "1", "--alpha", "50", "-b", "13"]
    subprocess.run(
        [sys.executable, "-m", "vowpalwabbit", *options, "-p", "theirs.txt", "--quiet"],
        cwd=tmp_path,
        check=True,
    )
    sonline("vw", *options, "-p", "ours.txt", "--quiet")
    theirs, ours = (np.loadtxt(tmp_path / name) for name in ("theirs.txt", "ours.txt"))
    np.testing.assert_allclose(ours, theirs, rtol=2e-3, atol=2e-3)


def test_options_are_parameters(sonline, tmp_path):
    (tmp_path / "d.vw").write_text(vw_text(300))
    done = sonline(
        *("vw", "-d", "d.vw", "-f", "v.son", *OJA, 5, "-b", 12, "--loss_function", "logistic"),
        *("--alpha_inverse", 2, "--noconstant", "--quiet"),
    )
    assert done.stdout == done.stderr == ""
    shown = json.loads(sonline("inspect", "v.son", "--json").stdout)["parameters"]
    wanted = {"sketch": "oja", "sketch_size": 5, "hash_bits": 12, "alpha": 0.5, "intercept": False}
    wanted |= {"oja_step": 2.0, "scaling": "gradient", "curvature": "gradient", "sigma": 0.125}
    wanted |= {"sketch_every": 1}
    assert wanted.items() <= shown.items()


def test_test_only_predicts_and_measures(sonline, tmp_path):
    text = vw_text(400)
    (tmp_path / "d.vw").write_text(text)
    sonline("vw", "d.vw", "-f", "v.son", *OJA, 5, "--loss_function", "logistic", "--quiet")
    tested = sonline("vw", "-t", "-d", "d.vw", "-i", "v.son")
    assert tested.stdout == ""  # predictions only where they are asked for
    measured = dict(line.split() for line in tested.stderr.splitlines())
    evaluation = json.loads(sonline("evaluate", "d.vw", "-m", "v.son", "--json").stdout)
    assert float(measured["loss"]) == pytest.approx(evaluation["loss"], abs=1e-6)
    sonline("vw", "-t", "d.vw", "-i", "v.son", "-p", "p.txt", "--quiet")
    raw = sonline("predict", "d.vw", "-m", "v.son", "--as", "raw").stdout
    assert (tmp_path / "p.txt").read_text() == raw
    for option, kind in (("--binary", "label"), ("--link=logistic", "probability")):
        shown = sonline("vw", "-t", "d.vw", "-i", "v.son", "-p", "-", option, "--quiet").stdout
        assert shown == sonline("predict", "d.vw", "-m", "v.son", "--as", kind).stdout
    # Rows without labels are predicted, too.
    bare = "".join(line[line.index("|") :] for line in text.splitlines(keepends=True))
    shown = sonline("vw", "-t", "-i", "v.son", "-p", "/dev/stdout", input=bare)
    assert [line.split()[0] for line in raw.splitlines()] == shown.stdout.split()


def test_namespaces_to_keep_and_to_leave_out(sonline, tmp_path):
    (tmp_path / "d.vw").write_text("1 |a x |b y |é z | w\n-1 |a u |b v |é t | s\n" * 10)
    for options, used in (
        (["--keep", "a"], 2),
        (["--keep", "aé"], 4),
        (["--ignore", "b"], 6),
        (["--keep", "ab", "--ignore", "b"], 2),
    ):
        sonline("vw", "d.vw", "-f", "m.son", *options, "--noconstant", "--quiet")
        assert json.loads(sonline("inspect", "m.son", "--json").stdout)["features"] == used


def test_what_only_vw_needs_is_in_its_part_of_the_file(sonline, tmp_path):
    (tmp_path / "d.vw").write_text(vw_text(50))
    loss = ("--loss_function", "logistic")
    sonline("vw", "d.vw", "-f", "m.son", *OJA, 2, *loss, "--binary", "--quiet")
    document, _ = persistence.read(tmp_path / "m.son")
    assert document["face"] == {"name": "vw", "predict_as": "label", "row_weight": 0.5}
    assert "row_weight" not in document


def test_going_on_with_a_model_is_never_having_stopped(sonline, tmp_path):
    text = vw_text(600).splitlines(keepends=True)
    for name, part in (("a", text[:250]), ("b", text[250:]), ("whole", text)):
        (tmp_path / f"{name}.vw").write_text("".join(part))
    for loss in ("squared", "logistic"):
        options = (*OJA, 4, "--loss_function", loss, "--quiet")
        sonline("vw", "whole.vw", "-f", "whole.son", *options, "-p", "whole.txt")
        sonline("vw", "a.vw", "-f", "a.son", *options, "-p", "a.txt")
        sonline("vw", "b.vw", "-i", "a.son", "-f", "b.son", "--quiet", "-p", "b.txt")
        written = [(tmp_path / f"{name}.txt").read_text() for name in ("a", "b", "whole")]
        assert written[0] + written[1] == written[2]
    assert identity(tmp_path / "b.son") != identity(tmp_path / "a.son")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--l1", "3"], "--l1"),
        (["--csoaa", "3"], "--csoaa"),
        (["--cb", "3"], "--cb"),
        (["--bfgs"], "--bfgs"),
        (["--random_init", "false"], "--random_init"),
        (["--loss_function", "poisson"], "poisson"),
        (["--epoch_size", "4", "--OjaNewton"], "--epoch_size"),
        (["--sketch_size", "4"], "--OjaNewton"),
        (["--alpha_inverse", "0", "--OjaNewton"], "--alpha_inverse"),
        (["--passes", "0"], "--passes"),
        (["-q", "a:"], "-q a:"),
        (["-q", "abc"], "-q abc"),
        (["-t"], "-i FILE"),
        (["-p", "x", "-r", "y"], "-p and -r"),
        (["--binary", "-p", "x"], "--loss_function"),
        (["--link=logistic", "-p", "x"], "--loss_function"),
    ],
)
def test_options_without_a_counterpart_are_refused_by_name(sonline, tmp_path, arguments, words):
    (tmp_path / "d.vw").write_text(vw_text(5))
    assert words in sonline("vw", "-d", "d.vw", *arguments, code=2).stderr


def test_the_file_may_stand_without_an_option():
    assert parse(["--passes", "2", "a.vw"]).data == "a.vw"
    assert parse([]).data == "-"


def test_options_without_a_meaning_here_are_taken(sonline, tmp_path):
    (tmp_path / "d.vw").write_text("1 |a x\n-1 |a y\n" * 20)
    sonline("vw", "d.vw", "-f", "a.son", "--quiet")
    more = "--adaptive --normalized --invariant --save_resume --no_stdin --random_seed 3 -P 10"
    sonline("vw", "d.vw", "-f", "b.son", "--quiet", *more.split(), "--hash", "all")
    assert tensors(tmp_path / "a.son") == tensors(tmp_path / "b.son")


def test_classes_and_a_number_of_rows(sonline, tmp_path):
    text = "".join(f"{n % 3 + 1} |a w{n % 3}\n" for n in range(90))
    (tmp_path / "d.vw").write_text(text)
    sonline("vw", "d.vw", "-f", "m.son", "--oaa", 3, "-p", "p.txt", "--examples", 60, "--quiet")
    lines = (tmp_path / "p.txt").read_text().split()
    assert len(lines) == 60
    assert lines[30:] == [str(n % 3 + 1) for n in range(30, 60)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--audit"], "-t -i MODEL --audit"),
        (["--l2", "1"], "--alpha of sonline train"),
        (["--skips", "1"], "no --ngram"),
        (["--ngram", "ab"], "such as a2"),
        (["--invert_hash", "x"], "name a file with -d"),
        (["--json", "-q", "ab"], "--interactions a*b"),
        (["-l", "0.5"], "no step size"),
        (["--json", "--ngram", "2"], "--ngrams COLUMN:2"),
        (["--beauty"], "--beauty is not supported"),
        (["-d", "a.vw", "-d", "b.vw"], "name one file"),
    ],
)
def test_refused_options_name_an_alternative(sonline, options, words):
    assert words in sonline("vw", *options, code=2).stderr


def test_weights_as_text(sonline, tmp_path):
    (tmp_path / "d.vw").write_text("1 |a x:2 y |b 7\n-1 |a z |b 8\n" * 20)
    texts = ("--readable_model", "r.txt", "--invert_hash", "i.txt")
    sonline("vw", "d.vw", "-f", "m.son", "--quiet", *texts)
    weights = OnlineLearner.load(tmp_path / "m.son").weights()
    readable, inverted = ((tmp_path / name).read_text().split() for name in ("r.txt", "i.txt"))
    slots = dict(line.split(":") for line in readable[readable.index(":0") + 2 :])
    assert {int(slot): float(value) for slot, value in slots.items()} == pytest.approx(
        {slot: weight for slot, weight in weights.items() if weight}, rel=1e-5
    )
    named = [line.rsplit(":", 2) for line in inverted[inverted.index(":0") + 2 :]]
    assert {name for name, _, _ in named} == {"a^x", "a^y", "a^z", "b^7", "b^8"}
    assert {slot: value for _, slot, value in named} == slots


def test_examples_in_json(sonline, tmp_path):
    rows = ['{"_label": 1, "_tag": "i", "a": {"x": 2.5, "y": true}, "_text": "to be or to"}']
    rows += ['{"_label": -1, "_tag": "j", "a": {"z": "w"}, "_text": "not"}']
    (tmp_path / "d.json").write_text("\n".join(rows * 30))
    options = ("--json", "--loss_function", "logistic", "--quiet")
    sonline("vw", "d.json", *options, "-f", "m.son", "-p", "p.txt")
    lines = (tmp_path / "p.txt").read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["i", "j"] * 30
    shown = sonline("vw", "-t", "-d", "d.json", "-i", "m.son", "-p", "-", *options).stdout
    values = [float(line.split()[0]) for line in shown.splitlines()]
    assert all(value > 0 for value in values[::2])
    assert all(value < 0 for value in values[1::2])


def test_grams_are_of_the_features_that_follow_each_other(tmp_path):
    """Namespaces with one first letter are one, and features of value 0 are not there."""
    (tmp_path / "d.vw").write_text("1 |a x y |b z |ab q w:0 |a r\n1 |b z\n")
    with streams.open(tmp_path / "d.vw", hash_bits=30, ngrams=["a:3:1"]) as stream:
        (batch,) = stream
    x, y, z, q, w, r, *grams = batch.indices[: batch.indptr[1]].tolist()
    assert batch.indices[batch.indptr[1] :].tolist() == [z]
    assert batch.values.tolist() == [1, 1, 1, 1, 0, 1, *[1] * len(grams), 1]

    def slot(*parts: int) -> int:
        total = 0
        for part in parts:
            total = (total * 27942141 + part) % 2**64
        return total % 2**30

    pairs = [(x, y), (y, q), (q, r), (x, q), (y, r)]
    triples = [(x, y, q), (y, q, r), (x, y, r), (x, q, r)]
    assert sorted(grams) == sorted(slot(*gram) for gram in pairs + triples)
    assert w not in grams


def test_a_model_reads_its_grams_again(sonline, tmp_path):
    text = "1 |a to be |b x\n-1 |a be to |b x\n" * 50  # only the order tells them apart
    (tmp_path / "d.vw").write_text(text)
    more = ("--loss_function", "logistic", "--quiet")
    sonline("vw", "d.vw", "-f", "m.son", "--ngram", 2, *more)
    shown = sonline("vw", "-t", "-d", "d.vw", "-i", "m.son", "-p", "-", "--quiet").stdout.split()
    assert [float(value) > 0 for value in shown] == [True, False] * 50
    assert sonline("predict", "d.vw", "-m", "m.son", "--as", "raw", "-q").stdout.split() == shown


def test_an_audit_adds_up_to_the_prediction(sonline, tmp_path):
    (tmp_path / "d.vw").write_text("1 'i|a x:2 y |b 7\n-1 'j|a z |b 8\n" * 20)
    sonline("vw", "d.vw", "-f", "m.son", "--quiet", "-q", "ab")
    done = sonline("vw", "-t", "-d", "d.vw", "-i", "m.son", "--audit", "--quiet").stdout
    lines = done.splitlines()
    predictions, tags = zip(*(line.split() for line in lines[::2]), strict=True)
    assert tags == ("i", "j") * 20
    for prediction, line in zip(predictions, lines[1::2], strict=True):
        actual = [words.rsplit(":", 3) for words in line.split("\t")[1:]]
        parts = [float(value) * float(weight) for _, _, value, weight in actual]
        assert sum(parts) == pytest.approx(float(prediction), rel=1e-3, abs=1e-4)
        assert [abs(part) for part in parts] == sorted(map(abs, parts), reverse=True)
    names = {words.split(":")[0] for words in lines[1].split("\t")[1:]}
    assert names == {"a^x", "a^y", "b^7", "Constant", ""}  # products have no names


def test_an_audit_of_several_classes_is_refused(sonline, tmp_path):
    (tmp_path / "d.vw").write_text("".join(f"{n % 3 + 1} |a w{n % 3}\n" for n in range(30)))
    sonline("vw", "d.vw", "-f", "m.son", "--oaa", 3, "--quiet")
    audit = ("vw", "-t", "-d", "d.vw", "-i", "m.son", "--audit")
    assert "several classes" in sonline(*audit, code=2).stderr


def test_labels_and_scores_of_classes(sonline, tmp_path):
    """As vw does: -p has labels and -r scores, in training and with -t."""
    text = "".join(f"{n % 3 + 1} |a w{n % 3}\n" for n in range(90))
    (tmp_path / "d.vw").write_text(text)
    sonline("vw", "d.vw", "-f", "m.son", "--oaa", 3, "-r", "r.txt", "--quiet")
    scores = (tmp_path / "r.txt").read_text().splitlines()
    assert [word.partition(":")[0] for word in scores[50].split()] == ["1", "2", "3"]
    test = ("vw", "-t", "-d", "d.vw", "-i", "m.son", "--quiet")
    labels = sonline(*test, "-p", "-").stdout
    assert labels == sonline("predict", "d.vw", "-m", "m.son", "--as", "label").stdout
    scores = sonline(*test, "-r", "-").stdout
    assert scores == sonline("predict", "d.vw", "-m", "m.son", "--as", "raw").stdout
    sonline("vw", "d.vw", "-i", "m.son", "-p", "p.txt", "--quiet")
    assert (tmp_path / "p.txt").read_text() == labels


def test_a_link_is_saved_with_the_model(sonline, tmp_path):
    (tmp_path / "d.vw").write_text(vw_text(200))
    new = ("vw", "d.vw", "--loss_function", "logistic", "--quiet", "-f")
    sonline(*new, "m.son", "--link", "logistic")
    sonline(*new, "b.son", "--binary")
    sonline("vw", "d.vw", "-i", "m.son", "-f", "n.son", "--quiet")
    for model, kind in (("m.son", "probability"), ("n.son", "probability"), ("b.son", "label")):
        test = ("vw", "-t", "-d", "d.vw", "-i", model, "--quiet")
        shown = sonline("predict", "d.vw", "-m", model, "--as", kind).stdout
        assert sonline(*test, "-p", "-").stdout == shown
        raw = sonline("predict", "d.vw", "-m", model, "--as", "raw").stdout
        assert sonline(*test, "-r", "-").stdout == raw
    identity = ("vw", "-t", "d.vw", "-i", "m.son", "-p", "-", "--quiet", "--link", "identity")
    assert (
        sonline(*identity).stdout == sonline("predict", "d.vw", "-m", "m.son", "--as", "raw").stdout
    )
