"""Training on a real Dask cluster of two processes: collections and checkpoints."""

import itertools
import subprocess
import sys
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import get_worker
from helpers_dask import FEATURES, PARTS, ROWS, arrays, by_hand, slowly, state

from sonline import SONRegressor as LocalRegressor
from sonline.distributed.dask import SONClassifier, SONRegressor
from sonline.distributed.dask.tokens import token_of
from sonline.errors import DataFormatError, InvalidInputError, ParameterError


def test_a_cluster_gives_the_same_model_as_merging_by_hand(client, data):
    X, y, _ = data
    dX, dy = arrays(X, y)
    model = SONClassifier().fit(dX.rechunk((ROWS, 5)), dy)
    assert state(model) == state(by_hand(X, y))
    figures = model.rounds_[0].figures
    assert [entry.partition for entry in figures] == list(range(PARTS))
    assert [entry.rows for entry in figures] == [ROWS] * PARTS
    assert {entry.worker for entry in figures} <= {"0", "1"}
    assert model.rounds_[0].loss == pytest.approx(model.progressive_loss_)
    assert model.rounds_[0].error == pytest.approx(1 - model.progressive_score_)
    lazy = model.predict(dX)
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(), model.predict(X))
    np.testing.assert_array_equal(model.predict_proba(dX).compute(), model.predict_proba(X))
    np.testing.assert_array_equal(model.decision_function(dX).compute(), model.decision_function(X))
    assert model.score(dX, dy) == model.score(X, y) > 0.9
    assert state(SONClassifier().fit(X, y)) != state(model)  # plain arrays: as ever


def test_figures_name_the_worker(client, data):
    X, y, _ = data
    for name in (0, 1):
        with dask.annotate(workers=[name]):
            model = SONClassifier().fit(*arrays(X, y))
        assert [entry.worker for entry in model.rounds_[0].figures] == [str(name)] * PARTS


def test_partitions_are_shown_as_they_are_finished(client, data, capfd):
    X, y, _ = data
    model = SONClassifier(max_iter=2).fit(*arrays(X, y), verbose=True)
    output = capfd.readouterr().err.splitlines()
    for turn, shard in enumerate(model.rounds_):
        for entry in shard.figures:
            wanted = (
                f"round {turn + 1}: partition {entry.partition}: {ROWS} rows, "
                f"loss {entry.loss / ROWS:.6f}, in {entry.seconds:.2f} s on worker {entry.worker}"
            )
            assert output.count(wanted) == 1
    SONClassifier().fit(*arrays(X, y))
    assert "round" not in capfd.readouterr().err


def on_a_worker(values):
    """Return the values, but not in the process of the driver."""
    get_worker()
    return values


@pytest.mark.usefixtures("no_cluster")
def test_a_client_that_is_named_does_all_the_work(client, data):
    X, y, _ = data
    parts = [slice(first, first + ROWS) for first in range(0, len(X), ROWS)]
    rows, labels = ([dask.delayed(on_a_worker)(each[part]) for part in parts] for each in (X, y))
    with pytest.raises(ValueError, match="No worker"):
        SONClassifier().fit(rows, labels)
    assert state(SONClassifier().fit(rows, labels, client=client)) == state(by_hand(X, y))


def test_the_page_begins_with_three_lines_that_work(client, data):
    page = Path(__file__).parents[2] / "docs" / "dask.md"
    code = page.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    assert len([line for line in code.splitlines() if line]) == 3
    X, y, _ = data
    names = dict(zip("Xy", arrays(X, y), strict=True))
    exec(code, names)  # noqa: S102 - our own page
    assert state(names["model"]) == state(by_hand(X, y))


@pytest.mark.usefixtures("no_cluster")
def test_without_a_cluster_the_bits_are_the_same(data):
    X, y, _ = data
    model = SONClassifier().fit(*arrays(X, y))
    assert {entry.worker for entry in model.rounds_[0].figures} == {"local"}
    assert state(model) == state(by_hand(X, y))


@pytest.mark.usefixtures("no_cluster")
def test_without_a_cluster_merging_is_done_again_from_checkpoints(data, tmp_path):
    """The driver has died after the last partition, before the merged model was kept."""
    X, y, _ = data
    model = SONClassifier().fit(*arrays(X, y), checkpoint=tmp_path, resume=True)
    for _ in range(2):
        for path in (tmp_path / "round-1").glob("merged.*"):
            path.unlink()
        again = SONClassifier().fit(*arrays(X, y), checkpoint=tmp_path, resume=True)
        assert all(entry.resumed for entry in again.rounds_[0].figures)
        assert state(again) == state(model)


def test_rounds_continue_from_the_merged_model(client, data):
    X, y, z = data
    dX, dy, dz = arrays(X, y, z)
    once, thrice = (SONClassifier(max_iter=n).fit(dX, dy) for n in (1, 3))
    assert [shard.total("rows") for shard in thrice.rounds_] == [PARTS * ROWS] * 3
    assert thrice.rounds_[0].loss == pytest.approx(once.rounds_[0].loss)
    assert thrice.rounds_[2].loss < thrice.rounds_[0].loss
    assert thrice.stats()["rounds"] == 3 * PARTS * ROWS
    regressor = SONRegressor(max_iter=2).fit(dX, dz, sample_weight=da.ones_like(dz))
    assert regressor.score(dX, dz) == pytest.approx(regressor.score(X, z))
    assert regressor.score(dX, dz) > 0.95
    warm = SONClassifier(warm_start=True).fit(dX, dy)
    warm.fit(dX, dy)
    assert warm.stats()["rounds"] == 2 * PARTS * ROWS


DIES_AND_RESUMES = """
import os, sys
import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from sonline.distributed import checkpoints
from sonline.distributed.dask import SONClassifier

kind, folder, dies = sys.argv[1], sys.argv[2], sys.argv[3] == "dies"

def rows(number):
    return pd.DataFrame(np.random.default_rng(number).normal(size=(50, 3)), columns=list("abc"))

def labels(number):
    return (rows(number)["a"] > 0).astype(int).rename("y")

each = [[dask.delayed(make)(number) for number in range(5)] for make in (rows, labels)]
if kind == "from_delayed":
    each = [dd.from_delayed(parts) for parts in each]
if dies:
    save = checkpoints.Checkpoints.save
    def save_and_die(self, turn, name, shard):
        save(self, turn, name, shard)
        if name == "partition-00002":
            os._exit(9)
    checkpoints.Checkpoints.save = save_and_die
model = SONClassifier().fit(*each, classes=[0, 1], checkpoint=folder, resume=True)
print(sum(figures.resumed for figures in model.rounds_[0].figures))
"""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["delayed", "from_delayed"])
def test_another_process_recognises_delayed_data(kind, tmp_path):
    """Keys of delayed values are random: those of a dead driver cannot be recognised."""

    def run(how):
        command = [sys.executable, "-c", DIES_AND_RESUMES, kind, str(tmp_path), how]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    assert run("dies").returncode == 9
    done = run("resumes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["3"]


def test_other_data_have_another_token(data):
    X = data[0]
    same = [token_of([dask.delayed(on_a_worker)(X[:5])]) for _ in range(2)]
    assert same[0] == same[1]
    others = [
        dask.delayed(on_a_worker)(X[1:6]),
        dask.delayed(slowly)(X[:5], None),
        dask.delayed(X[:5]),
        dask.delayed(on_a_worker)(dask.delayed(on_a_worker)(X[:5])),
    ]
    tokens = {same[0], *(token_of([other]) for other in others)}
    assert len(tokens) == 5


@pytest.mark.usefixtures("no_cluster")
def test_nothing_is_deleted_that_we_did_not_write(data, tmp_path):
    X, y, _ = data
    mine = tmp_path / "round-1" / "notes.txt"
    mine.parent.mkdir()
    mine.write_text("mine", encoding="utf-8")
    for resume in (False, True):
        with pytest.raises(ParameterError, match="was not left by a run of sonline"):
            SONClassifier().fit(*arrays(X, y), checkpoint=tmp_path, resume=resume)
    folder = tmp_path / "other"
    SONClassifier(max_iter=2).fit(*arrays(X, y), checkpoint=folder)
    added = [
        folder / "round-1" / "notes.txt",
        folder / "thesis.tex",
        folder / "round-2" / "a" / "b",
    ]
    for path in added:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine", encoding="utf-8")
    model = SONClassifier().fit(*arrays(X, y), checkpoint=folder)
    assert [path.read_text(encoding="utf-8") for path in added] == ["mine"] * 3
    assert not list((folder / "round-2").glob("*.sonline"))  # of the run before
    assert not any(entry.resumed for entry in model.rounds_[0].figures)
    (folder / "run.json").write_text('{"name": "another program"}', encoding="utf-8")
    with pytest.raises(ParameterError, match=r"run\.json was not left by"):
        SONClassifier().fit(*arrays(X, y), checkpoint=folder)


def test_data_frames_keep_their_names(client, data):
    X, y, z = data
    names = [f"column {i}" for i in range(FEATURES)]
    frame = pd.DataFrame(X, columns=names).assign(label=y, number=z)
    lazy = dd.from_pandas(frame, npartitions=4)
    model = SONClassifier().fit(lazy[names], lazy["label"])
    assert model.feature_names_in_.tolist() == names
    predicted = model.predict(lazy[names]).compute()
    assert predicted.index.equals(frame.index)
    np.testing.assert_array_equal(predicted.to_numpy(), model.predict(frame[names]))
    assert model.predict_proba(lazy[names]).compute().shape == (len(frame), 3)
    assert model.score(lazy[names], lazy["label"]) > 0.9
    regressor = SONRegressor().fit(lazy[names], lazy["number"])
    assert regressor.score(lazy[names], lazy["number"]) > 0.9


@pytest.mark.filterwarnings("ignore:The inplace keyword:DeprecationWarning")  # Dask of pandas
def test_parquet_files_are_read_in_partitions_that_fit(client, data, tmp_path):
    """By itself, a single column would be read in fewer partitions than all the others."""
    X, y, z = data
    names = [f"column {i}" for i in range(FEATURES)]
    frame = pd.DataFrame(X, columns=names).assign(label=y, number=z, weight=1.0 + (z > 0))
    dd.from_pandas(frame, npartitions=8).to_parquet(tmp_path / "rows")
    lazy = dd.read_parquet(tmp_path / "rows")
    model = SONClassifier().fit(lazy[names], lazy["label"])
    assert sum(entry.rows for entry in model.rounds_[0].figures) == len(frame)
    assert model.score(lazy[names], lazy["label"]) > 0.9
    narrow = SONRegressor().fit(lazy[names[:1]], lazy["number"], sample_weight=lazy["weight"])
    assert narrow.feature_names_in_.tolist() == names[:1]
    whole = lazy[[*names, "label"]]
    named = SONClassifier().fit(whole, "label")
    assert named.feature_names_in_.tolist() == names
    assert state(named) == state(model)
    assert named.score(whole, "label") == model.score(lazy[names], lazy["label"])
    weighted = SONRegressor().fit(lazy.drop(columns="label"), "number", sample_weight="weight")
    assert weighted.feature_names_in_.tolist() == names
    with pytest.raises(InvalidInputError, match="no column 'colour'"):
        SONClassifier().fit(lazy, "colour")
    with pytest.raises(InvalidInputError, match="X is no Dask data frame"):
        SONClassifier().fit(arrays(X)[0], "label")


def test_delayed_partitions_may_be_sparse_or_empty(client, data):
    X, y, _ = data
    cuts = [0, ROWS, ROWS, 2 * ROWS]
    parts = [slice(a, b) for a, b in itertools.pairwise(cuts)]
    model = SONClassifier(curves=False).fit(
        [dask.delayed(sp.csr_array)(X[part]) for part in parts],
        [dask.delayed(y[part]) for part in parts],
    )
    assert [entry.rows for entry in model.rounds_[0].figures] == [ROWS, 0, ROWS]
    dense = SONClassifier(curves=False).fit(*arrays(X[: 2 * ROWS], y[: 2 * ROWS]))
    assert state(model) == state(dense)


def test_blocks_without_rows_leave_types_and_columns_as_they_are(data):
    """Of numbers as labels the predictions became floats, and probabilities failed."""
    X, y, _ = data
    X, y = X[:60], np.unique(y[:60], return_inverse=True)[1]
    model = SONClassifier().fit(da.from_array(X, chunks=(30, -1)), da.from_array(y, chunks=30))
    holes = da.from_array(X, chunks=((30, 0, 30), X.shape[1]))
    assert model.predict(holes).compute().dtype == y.dtype
    np.testing.assert_array_equal(model.predict_proba(holes).compute(), model.predict_proba(X))
    table = dd.from_pandas(pd.DataFrame(X).rename(columns=str), npartitions=3)
    named = SONClassifier().fit(table.assign(label=dd.from_array(y, chunksize=20)), "label")
    few = table[table["0"] > table["0"].max().compute() - 1e-9]
    assert named.predict_proba(few).compute().shape == (1, 3)
    assert named.predict(few).compute().dtype == y.dtype


def test_the_named_client_need_not_be_the_one_in_use(client):
    program = f"""
import dask.array as da
import numpy as np
from distributed import Client
from sonline.distributed.dask import SONClassifier

X = da.from_array(np.eye(40), chunks=(10, 40))
y = da.from_array(np.arange(40) % 2, chunks=10)
with Client({client.scheduler.address!r}, set_as_default=False) as named:
    model = SONClassifier().fit(X, y, client=named)
print(*(figures.worker for figures in model.rounds_[0].figures))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    names = done.stdout.split()
    assert len(names) == 4
    assert "local" not in names  # as those are who are no workers of a cluster


def test_classes_may_be_discovered(client, data):
    X, y, _ = data
    order = np.argsort(y, kind="stable")  # some partitions have one class only
    dX, dy = arrays(X[order], y[order])
    model = SONClassifier(discover_classes=True).fit(dX, dy)
    assert model.classes_.tolist() == ["ant", "bee", "cow"]


def test_missing_labels_of_text_are_no_class():
    """pandas has NA for them, which is neither equal nor unequal to itself."""
    rows = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0] * 5})
    labels = pd.Series(["x", "y", pd.NA, "x"] * 5, dtype="string")
    table = dd.from_pandas(rows.assign(label=labels), npartitions=2)
    model = SONClassifier().fit(table, "label", on_error="skip")
    assert model.classes_.tolist() == ["x", "y"]
    assert [entry.skipped for entry in model.rounds_[0].figures] == [2, 3]


def test_columns_that_have_numbers_for_names_are_listed():
    table = dd.from_pandas(pd.DataFrame(np.ones((4, 2))), npartitions=1)
    with pytest.raises(InvalidInputError, match="no column 'label'; it has 0, 1"):
        SONClassifier().fit(table, "label")


def test_bad_rows_are_named_or_skipped(client, data):
    X, y, _ = data
    X = X.copy()
    X[2 * ROWS + 6, 3] = np.nan
    X[2 * ROWS + 8, 0] = np.inf
    # Bad rows in one partition: of several, the one that is found first ends it.
    with pytest.raises(DataFormatError, match=r"^partition 2:7: feature 3: NaN") as caught:
        SONClassifier().fit(*arrays(X, y))
    assert (caught.value.file, caught.value.line) == ("partition 2", 7)
    X[4 * ROWS, 0] = 1e19  # too large for float32
    dX, dy = arrays(X, y)
    model = SONClassifier().fit(dX, dy, on_error="skip")
    assert [entry.skipped for entry in model.rounds_[0].figures] == [0, 0, 2, 0, 1, 0]
    assert model.progress_.rows == PARTS * ROWS - 3
    sparse = dask.delayed(sp.csr_array)(X[2 * ROWS : 3 * ROWS])
    with pytest.raises(DataFormatError, match=r"^partition 0:7: "):
        SONClassifier().fit([sparse], [dask.delayed(y[2 * ROWS : 3 * ROWS])])
    with pytest.raises(ParameterError, match="on_error"):
        SONClassifier().fit(dX, dy, on_error="ignore")
    with pytest.raises(InvalidInputError, match="6 partitions, y has 3"):
        SONClassifier().fit(dX, dy.rechunk(2 * ROWS))
    with pytest.raises(InvalidInputError, match="no rows to learn from"):
        SONRegressor().fit(arrays(X * np.nan)[0], arrays(X[:, 0])[0], on_error="skip")


def counts(rows):
    rng = np.random.default_rng(0)
    X, offset = rng.normal(size=(rows, 3)), rng.uniform(-1, 1, rows)
    return X, rng.poisson(np.exp(0.5 * X[:, 0] + offset)).astype(float), offset


@pytest.mark.parametrize("kind", ["arrays", "frames"])
def test_counts_with_exposure(client, kind):
    X, y, offset = counts(4 * ROWS)
    parts = [slice(first, first + ROWS) for first in range(0, 4 * ROWS, ROWS)]
    local = [LocalRegressor("poisson").partial_fit(X[p], y[p], offset=offset[p]) for p in parts]
    expected = local[0].merge(local[1:])
    model = SONRegressor("poisson")
    if kind == "arrays":
        rows, labels, offsets = arrays(X, y, offset)
        model.fit(rows, labels, offset=offsets)
    else:
        frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(n=y, o=offset)
        whole = dd.from_pandas(frame, npartitions=4)
        rows, offsets = whole[["a", "b", "c"]], whole["o"]
        model.fit(whole, "n", offset="o")
    predicted = model.predict(rows, offset=offsets).compute()
    np.testing.assert_allclose(predicted, expected.predict(X, offset=offset), rtol=1e-6)
    np.testing.assert_allclose(model.predict(rows).compute(), expected.predict(X), rtol=1e-6)
    assert not np.allclose(predicted, expected.predict(X))
    with pytest.raises(InvalidInputError, match="without standard deviations"):
        model.predict(rows, return_std=True)


@pytest.mark.parametrize(("loss", "value"), [("poisson", -1.0), ("gamma", 0.0), ("huber", 1e200)])
def test_labels_that_a_loss_does_not_allow_are_named_or_skipped(client, loss, value):
    X, y, offset = counts(2 * ROWS)
    y, y[ROWS + 3] = y + 1, value
    rows, labels, offsets = arrays(X, y, offset)
    with pytest.raises(DataFormatError, match=r"^partition 1:4: the label"):
        SONRegressor(loss).fit(rows, labels)
    model = SONRegressor(loss).fit(rows, labels, on_error="skip")
    assert [entry.skipped for entry in model.rounds_[0].figures] == [0, 1]
    offset[5] = np.inf
    with pytest.raises(DataFormatError, match=r"^partition 0:6: the offset inf"):
        SONRegressor(loss).fit(rows, arrays(np.abs(X[:, 0]) + 1)[0], offset=arrays(offset)[0])
    with pytest.raises(InvalidInputError, match="needs a regressor"):
        SONClassifier().fit(rows, labels, offset=offsets)


def test_a_cell_that_is_no_date_is_named_or_skipped(client, data):
    X, y, _ = data
    days = pd.date_range("2024-01-01", periods=len(y)).strftime("%Y-%m-%d")
    frame = pd.DataFrame({"x": X[:, 0], "when": days, "y": y})
    frame.loc[len(y) - 2, "when"] = "soon"
    parts = dd.from_pandas(frame, npartitions=2)
    row = len(parts.partitions[1]) - 1
    with pytest.raises(DataFormatError, match=rf"^partition 1:{row}: column 'when' .*'soon'"):
        SONClassifier().fit(parts, "y")
    model = SONClassifier().fit(parts, "y", on_error="skip")
    assert [entry.skipped for entry in model.rounds_[0].figures] == [0, 1]
    assert "when.week_sin" in model.weights("ant")
