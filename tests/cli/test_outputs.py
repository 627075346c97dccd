"""Outputs of every kind: files, links, folders, pipes, devices, a full disk, no reader."""

import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest

from cli.conftest import SONLINE, small_disk, svmlight, tensors


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.svm"
    path.write_text(svmlight(3000))
    return path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["train", "data.svm", "-o", "n.son", "--predictions", "p.txt"], "p.txt"),
        (["predict", "data.svm", "-m", "m.son", "-o", "p.txt"], "p.txt"),
        (["convert", "data.svm", "-o", "a.vw"], "a.vw"),
        (["convert", "data.svm", "-o", "a.csv.gz"], "a.csv.gz"),
        (["vw", "-t", "-d", "data.vw", "-i", "v.son", "-p", "p.txt"], "p.txt"),
    ],
)
def test_an_error_about_a_full_disk_names_the_file(sonline, data, tmp_path, command, name):
    sonline("train", data, "-o", "m.son", "-q")
    if command[0] == "vw":
        sonline("convert", data, "-o", "data.vw", "-q")
        sonline("vw", "data.vw", "-f", "v.son", "--quiet")
    failed = sonline(*command, code=3, **small_disk(20_000))
    assert name in failed.stderr.splitlines()[-1]
    assert "Traceback" not in failed.stderr
    assert not list(tmp_path.glob(".*.part"))


def first_line(folder, *command):
    """Read one line and close the pipe."""
    with subprocess.Popen(
        [SONLINE, *map(str, command)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        line = process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
    return line, errors, process.returncode


def test_a_reader_that_has_seen_enough(sonline, data, tmp_path):
    data.write_text(svmlight(1000) * 40)  # more than a pipe holds
    sonline("train", data, "-o", "m.son", "-q")
    for command in (
        ["predict", data, "-m", "m.son", "-q"],
        ["convert", data, "--to", "vw", "-o", "-", "-q"],
    ):
        line, errors, code = first_line(tmp_path, *command)
        assert line
        assert (errors, code) == ("", 0)
    # Training continues: the user wants the model in the end.
    line, errors, code = first_line(tmp_path, "train", data, "-o", "n.son", "--predictions", "-")
    assert (line, code) == ("0.0\n", 0)
    assert "the reader of predictions is gone" in errors
    assert tensors(tmp_path / "n.son") == tensors(tmp_path / "m.son")


def test_training_continues_when_standard_error_is_closed(data, tmp_path):
    data.write_text(svmlight(1000) * 4)
    reading, writing = os.pipe()
    os.close(reading)
    command = [SONLINE, "train", data, "-o", "m.son"]
    done = subprocess.run(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=writing, text=True, check=False
    )
    os.close(writing)
    assert done.returncode == 0
    assert "rows            4,000" in done.stdout
    assert (tmp_path / "m.son").stat().st_size > 0


OUTPUTS = {  # the option, and a command that writes to it
    "--output": ["train", "data.svm", "-q", "-o"],
    "--output of vw": ["vw", "data.vw", "--quiet", "-f"],
    "--checkpoint": ["train", "data.svm", "-q", "-o", "n.son", "--checkpoint"],
    "--save-config": ["train", "data.svm", "-q", "--save-config"],
    "--predictions": ["train", "data.svm", "-q", "-o", "n.son", "--predictions"],
    "--bad-rows": ["train", "data.svm", "-q", "--on-error", "skip", "--bad-rows"],
    "--output of predict": ["predict", "data.svm", "-m", "m.son", "-q", "-o"],
    "--output of convert": ["convert", "data.svm", "--to", "vw", "-q", "-o"],
    "--names": ["convert", "data.svm", "-o", "a.svm", "-q", "--names"],
    "--plot": ["inspect", "m.son", "-q", "--plot"],
    "--output of merge": ["merge", "m.son", "other.son", "-q", "-o"],
    "--predictions of vw": ["vw", "data.vw", "--quiet", "-p"],
    "--readable_model": ["vw", "data.vw", "--quiet", "--readable_model"],
    "--invert_hash": ["vw", "data.vw", "--quiet", "--invert_hash"],
}


def outputs_except(*options):
    """Return the mark of a test of all outputs but these."""
    chosen = {name: command for name, command in OUTPUTS.items() if name not in options}
    return pytest.mark.parametrize("command", chosen.values(), ids=chosen)


ALL = outputs_except()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All that the commands read."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "data.svm").write_text(svmlight(300))
    for command in (
        "train data.svm -o m.son -q",
        "train data.svm -o other.son -q --passes 2",
        "convert data.svm -o data.vw -q",
    ):
        subprocess.run([SONLINE, *command.split()], cwd=folder, check=True)
    return folder


@pytest.fixture
def inputs(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path, dirs_exist_ok=True))


def refused(sonline, inputs, command, target):
    """The command says so before it learns, and leaves nothing behind."""
    before = sorted(inputs.rglob("*"))
    if "-q" in command:
        command = [word for word in command if word != "-q"]
    done = sonline(*command, target, code=3)
    assert str(target) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert "average" not in done.stderr  # the table of a run that has begun
    assert sorted(inputs.rglob("*")) == before


def name_of(command):
    return "out.png" if command[0] == "inspect" else "out"


@ALL
def test_a_folder_is_refused_first(sonline, inputs, command):
    (inputs / name_of(command)).mkdir()
    refused(sonline, inputs, command, name_of(command))


@ALL
def test_a_missing_folder_is_refused_first(sonline, inputs, command):
    refused(sonline, inputs, command, f"nowhere/{name_of(command)}")


@ALL
@pytest.mark.one_in(2)
def test_a_place_that_cannot_be_written_is_refused_first(sonline, inputs, command):
    # The kernel's own folder: not even root makes files there.
    refused(sonline, inputs, command, f"/proc/self/{name_of(command)}")


@ALL
@pytest.mark.one_in(2)
def test_a_link_stays_one(sonline, inputs, command):
    name = name_of(command)
    (inputs / "there").mkdir()
    (inputs / name).symlink_to(inputs / "there" / name)
    for _ in range(2):  # the file is made, and then replaced
        if command[0] == "train" and "--checkpoint" in command:
            command = [*command[:-1], "--checkpoint-every", "100", "--checkpoint"]
        sonline(*command, name)
        assert (inputs / name).is_symlink()
        assert (inputs / "there" / name).is_file()
        assert not list(inputs.rglob("*.part"))


@outputs_except("--plot")  # whose name says its format
@pytest.mark.one_in(2)
def test_a_device_stays_one(sonline, inputs, command):
    device = inputs / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        device.symlink_to("/dev/null")  # as good: it must not be replaced either
    sonline(*command, device, code=2 if "--checkpoint" in command else 0)
    assert stat.S_ISCHR(device.stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@outputs_except("--plot", "--checkpoint")
@pytest.mark.one_in(2)
def test_a_pipe_is_written_into(sonline, inputs, command):
    os.mkfifo(inputs / "pipe")
    actual = []
    reader = threading.Thread(
        target=lambda: actual.append((inputs / "pipe").read_bytes()), daemon=True
    )
    reader.start()
    sonline(*command, "pipe", timeout=60)
    reader.join(timeout=60)
    assert stat.S_ISFIFO((inputs / "pipe").stat().st_mode)
    assert actual != [b""] or "--bad-rows" in command


def test_no_model_need_be_written(sonline, inputs):
    done = sonline("train", "data.svm")
    assert "not saved" in done.stdout
    assert "--checkpoint or --output" in sonline("train", "data.svm", "--resume", code=2).stderr
    assert "needs a file" in sonline("train", "data.svm", "-o", "-", code=2).stderr


def test_leftovers_of_a_killed_process_are_removed(sonline, inputs):
    left = inputs / f".m.son.{'0a' * 8}.part"
    left.write_bytes(b"the beginning of a model")
    other = inputs / f".n.son.{'0a' * 8}.part"
    other.write_bytes(b"of another one")
    sonline("train", "data.svm", "-o", "m.son", "-q")
    assert not left.exists()
    assert other.exists()


def test_a_model_that_cannot_be_written_is_saved_elsewhere(sonline, inputs, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    variables = {**os.environ, "TMPDIR": str(elsewhere)}
    failed = sonline("train", "data.svm", "-q", "-o", "/dev/full", code=3, env=variables)
    (rescued,) = elsewhere.rglob("full")
    assert failed.stderr == (
        f"sonline: /dev/full: No space left on device; the model is saved in {rescued} instead\n"
    )
    assert tensors(rescued) == tensors(inputs / "m.son")


@outputs_except("--plot", "--checkpoint")
@pytest.mark.one_in(2)
def test_an_open_stream_is_appended_to(sonline, inputs, command):
    sonline(*command, inputs / "plain")
    target = inputs / "there"
    target.write_bytes(b"before\n")
    with target.open("ab") as file:
        subprocess.run([SONLINE, *command, "/dev/stdout"], cwd=inputs, stdout=file, check=True)
    assert target.read_bytes() == b"before\n" + (inputs / "plain").read_bytes()
    assert not list(inputs.rglob("*.part"))


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(data, tmp_path, closed):
    """As under some versions of cron."""
    command = ["sh", "-c", f"{SONLINE} train data.svm -o m.son {closed}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    reference = [SONLINE, "train", "data.svm", "-o", "n.son", "-q"]
    subprocess.run(reference, cwd=tmp_path, check=True)
    assert tensors(tmp_path / "m.son") == tensors(tmp_path / "n.son")
