"""``sonline train --cache``: pipes, full disks, killed runs, and Vowpal Wabbit's options."""

import gzip
import signal
import subprocess
import time

import pytest

from cli.conftest import SONLINE, identity, small_disk, svmlight, tensors

pytest.importorskip("pyarrow")


def leftovers(folder):
    return [path.name for path in folder.iterdir() if path.name.endswith(".part")]


def test_the_model_is_that_without_a_cache(sonline, tmp_path):
    text = svmlight(3000)
    (tmp_path / "a.svm.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "v.svm").write_text(svmlight(300, seed=1))
    options = ("--passes", 3, "--validation", "v.svm", "--shuffle", 500)
    sonline("train", "a.svm.gz", "-o", "plain", *options)
    for name in ("first", "second"):
        done = sonline("train", "a.svm.gz", "-o", name, *options, "--cache", "a.cache")
        assert identity(tmp_path / name) == identity(tmp_path / "plain")
    assert "cache a.cache: read instead of the data" in done.stderr


def test_several_passes_over_a_pipe_need_a_cache(sonline, tmp_path):
    text = svmlight(3000)
    (tmp_path / "a.svm").write_text(text)
    sonline("train", "a.svm", "--passes", 3, "-o", "plain")
    refused = sonline("train", "-", "--passes", 3, "-o", "m", input=text, code=2)
    assert "--cache FILE" in refused.stderr
    for seed in (1, 0):  # the rows of an earlier pipe are not used
        done = sonline(
            *("train", "-", "--passes", 3, "-o", "m", "--cache", "c"),
            input=svmlight(3000, seed=seed),
        )
    assert "pipes and URLs may have changed" in done.stderr
    assert tensors(tmp_path / "m") == tensors(tmp_path / "plain")
    again = sonline(
        *("train", "-", "--passes", 3, "-o", "m", "--cache", "c", "--resume"), input=text, code=2
    )
    assert "cannot be continued" in again.stderr


def test_training_goes_on_if_the_cache_does_not_fit_on_the_disk(sonline, tmp_path):
    text = svmlight(20000)
    (tmp_path / "a.svm").write_text(text)
    options = ("--passes", 2, "-o")
    sonline("train", "a.svm", *options, "plain")
    limit = small_disk(1_000_000)
    done = sonline("train", "a.svm", *options, "m", "--cache", "c", **limit)
    assert "cache c: cannot be written, so every pass parses: File too large" in done.stderr
    assert identity(tmp_path / "m") == identity(tmp_path / "plain")
    assert not (tmp_path / "c").exists()
    assert not leftovers(tmp_path)
    # The rows of a pipe would be lost.
    done = sonline("train", "-", *options, "n", "--cache", "c", input=text, code=3, **limit)
    assert "cache c: cannot be written: File too large" in done.stderr
    assert not leftovers(tmp_path)


def test_a_full_disk_keeps_the_older_cache_out_of_use(sonline, tmp_path):
    (tmp_path / "a.svm").write_text(svmlight(20000))
    sonline("train", "a.svm", "-o", "old", "--cache", "c")
    (tmp_path / "a.svm").write_text(svmlight(20000, seed=1))
    sonline("train", "a.svm", "-o", "plain", "--passes", 2)
    run = ("train", "a.svm", "-o", "m", "--passes", 2, "--cache", "c")
    done = sonline(*run, **small_disk(1_000_000))
    assert "the data has changed" in done.stderr
    assert identity(tmp_path / "m") == identity(tmp_path / "plain")


def test_a_killed_run_leaves_no_cache_and_the_next_one_cleans_up(sonline, tmp_path):
    text = svmlight(40000)
    (tmp_path / "a.svm").write_text(text)
    slow = subprocess.Popen(
        [SONLINE, "train", "-", "-o", "m", "--cache", "c", "--quiet"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
    )
    assert slow.stdin is not None
    slow.stdin.write(text.encode())
    slow.stdin.flush()
    while not any((tmp_path / name).stat().st_size for name in leftovers(tmp_path)):
        time.sleep(0.01)
    slow.send_signal(signal.SIGKILL)
    slow.wait()
    slow.stdin.close()
    assert leftovers(tmp_path)
    assert not (tmp_path / "c").exists()
    sonline("train", "a.svm", "-o", "m", "--cache", "c")
    assert not leftovers(tmp_path)
    assert (tmp_path / "c").exists()


def test_other_files_are_refused_before_training(sonline, tmp_path):
    (tmp_path / "a.svm").write_text(svmlight(100))
    (tmp_path / "diary").write_text("dear diary")
    for target, code in (("diary", 2), ("a.svm", 2), ("m", 2), ("none/c", 3)):
        done = sonline("train", "a.svm", "-o", "m", "--cache", target, code=code)
        assert "--cache" in done.stderr
    assert not (tmp_path / "m").exists()
    assert (tmp_path / "diary").read_text() == "dear diary"


def test_a_configuration_may_name_the_cache(sonline, tmp_path):
    (tmp_path / "a.svm").write_text(svmlight(100))
    (tmp_path / "run.toml").write_text('cache = "rows.arrow"\npasses = 2\n')
    sonline("train", "a.svm", "--config", "run.toml", "--save-config", "saved.toml")
    assert (tmp_path / "rows.arrow").exists()
    assert 'cache = "rows.arrow"' in (tmp_path / "saved.toml").read_text()


def test_a_cluster_has_none(sonline, tmp_path):
    (tmp_path / "a.svm").write_text(svmlight(100))
    done = sonline("train", "a.svm", "--cluster", "local:1", "--cache", "c", code=2)
    assert "--cache cannot be used with --cluster" in done.stderr


def test_vowpal_wabbit_options_of_the_cache(sonline, tmp_path):
    lines = [line.replace(" ", " | ", 1) for line in svmlight(2000).splitlines()]
    (tmp_path / "a.vw").write_text("\n".join(lines) + "\n")
    (tmp_path / "a.vw.cache").write_text("of Vowpal Wabbit itself")
    options = ("-d", "a.vw", "--passes", 2, "--loss_function", "logistic")
    sonline("vw", *options, "-f", "plain")
    sonline("vw", *options, "-f", "m", "-c")
    assert identity(tmp_path / "m") == identity(tmp_path / "plain")
    assert (tmp_path / "a.vw.cache").read_text() == "of Vowpal Wabbit itself"
    assert "read instead" in sonline("vw", *options, "-f", "m", "-c").stderr
    assert "cache" not in sonline("vw", *options, "-f", "m", "-c", "-k").stderr
    sonline("vw", *options, "-f", "m", "--cache_file", "other")
    assert (tmp_path / "other.arrow").exists()
