"""Downloads from a server on the loopback interface: whole, broken off, damaged, changed."""

import gzip
import http.server
import io
import socket
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import scipy.sparse as sp

from sonline.paper import datasets
from sonline.paper.datasets import transfer
from sonline.paper.datasets.transfer import DownloadError, download

PAYLOAD = bytes(range(256)) * 1000


@dataclass
class Server:
    """The files of the server, how it fails, and the requests it got."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    break_after: list[int] = field(default_factory=list)  # bytes sent before each break
    ranges: bool = True
    asked: list[str | None] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    state = Server()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            state.asked.append(wanted)
            body = state.files.get(self.path.lstrip("/"))
            if body is None:
                self.send_error(404)
                return
            etag = f'"{hash(body)}"'
            unchanged = self.headers.get("If-Range") in {None, etag}
            start = 0
            if wanted and state.ranges and unchanged:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= len(body):
                    self.send_error(416)
                    return
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body) - start))
            self.send_header("ETag", etag)
            self.end_headers()
            send = body[start:]
            if state.break_after:
                send = send[: state.break_after.pop(0)]
            self.wfile.write(send)

        def log_message(self, *arguments: object) -> None:
            pass

    monkeypatch.setattr(transfer.time, "sleep", lambda seconds: None)
    monkeypatch.setenv("no_proxy", "*")  # the proxy of a company does not know this server
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        state.url = f"http://127.0.0.1:{listener.server_address[1]}"
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        yield state
        listener.shutdown()
        thread.join()


def small_set(monkeypatch, rows: sp.csr_matrix, labels: np.ndarray, **changes: object) -> None:
    """Make the registry expect a small data set under the name of heart."""
    known = replace(
        datasets.info("heart"),
        rows=rows.shape[0],
        features=rows.shape[1],
        nonzeros=rows.nnz / rows.shape[0],
        fingerprint=datasets.fingerprint(rows, labels),
        **changes,
    )
    monkeypatch.setitem(datasets.REGISTRY, "heart", known)


@pytest.fixture
def heart(monkeypatch) -> bytes:
    small_set(monkeypatch, sp.csr_matrix([[1.0, 0.5], [0.0, 2.0]]), np.array([1.0, -1.0]))
    return b"+1 1:1 2:0.5\n-1 2:2\n"


def test_a_file_is_fetched_once(server, tmp_path):
    server.files["x.bin"] = PAYLOAD
    seen: list[int] = []
    path = download(f"{server.url}/x.bin", tmp_path, lambda url, have, total: seen.append(have))
    assert path.read_bytes() == PAYLOAD
    assert seen[-1] == len(PAYLOAD)
    download(f"{server.url}/x.bin", tmp_path)
    assert server.asked == [None]  # the second call asked nothing
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.bin"]


def test_a_connection_that_breaks_is_resumed(server, tmp_path):
    server.files["x.bin"] = PAYLOAD
    server.break_after = [1000, 5000]
    path = download(f"{server.url}/x.bin", tmp_path)
    assert path.read_bytes() == PAYLOAD
    assert server.asked == [None, "bytes=1000-", "bytes=6000-"]


def test_an_interrupted_download_continues_in_the_next_call(server, tmp_path):
    server.files["x.bin"] = PAYLOAD
    server.break_after = [1000] * transfer.ATTEMPTS
    with pytest.raises(DownloadError, match=r"broke after 3000 of 256000 bytes.* call again"):
        download(f"{server.url}/x.bin", tmp_path)
    assert (tmp_path / "x.bin.part").read_bytes() == PAYLOAD[:3000]
    assert download(f"{server.url}/x.bin", tmp_path).read_bytes() == PAYLOAD
    assert server.asked[-1] == "bytes=3000-"


def test_a_server_without_ranges_sends_the_whole_again(server, tmp_path):
    server.files["x.bin"] = PAYLOAD
    server.ranges = False
    server.break_after = [1000]
    assert download(f"{server.url}/x.bin", tmp_path).read_bytes() == PAYLOAD


def test_a_file_that_changed_meanwhile_is_sent_whole(server, tmp_path):
    server.files["x.bin"] = PAYLOAD
    server.break_after = [1000] * transfer.ATTEMPTS
    with pytest.raises(DownloadError):
        download(f"{server.url}/x.bin", tmp_path)
    server.files["x.bin"] = changed = PAYLOAD[::-1]
    assert download(f"{server.url}/x.bin", tmp_path).read_bytes() == changed


def test_a_part_that_is_whole_already_is_settled_by_a_fresh_start(server, tmp_path):
    server.files["x.bin"] = PAYLOAD
    (tmp_path / "x.bin.part").write_bytes(PAYLOAD)
    assert download(f"{server.url}/x.bin", tmp_path).read_bytes() == PAYLOAD


def test_a_missing_file_says_what_the_server_answered(server, tmp_path):
    with pytest.raises(DownloadError, match="answered 404"):
        download(f"{server.url}/nothing", tmp_path)


def test_other_schemes_are_refused(tmp_path):
    with pytest.raises(DownloadError, match="http"):
        download("file:///etc/passwd", tmp_path)


def test_offline_says_so_and_what_to_do(server, tmp_path, heart):
    with socket.socket() as taken:  # by nobody who would listen
        taken.bind(("127.0.0.1", 0))
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(DownloadError, match=r"heart: cannot fetch .*offline.*data_dir"):
            datasets.fetch("heart", tmp_path, mirror=closed)


def test_a_set_is_fetched_into_the_cache_and_then_read_from_it(
    server, tmp_path, monkeypatch, heart
):
    monkeypatch.setenv("SONLINE_CACHE", str(tmp_path))
    monkeypatch.delenv("SONLINE_DATA", raising=False)
    server.files["heart"] = heart
    path = datasets.fetch("heart", mirror=server.url)
    data = datasets.load("heart")
    assert data.path == path
    assert data.y.tolist() == [1, -1]
    assert data.differences() == []
    assert datasets.fetch("heart", mirror=server.url) == path
    assert len(server.asked) == 1


def test_load_fetches_missing_data(server, tmp_path, monkeypatch, heart):
    monkeypatch.setenv("SONLINE_CACHE", str(tmp_path))
    monkeypatch.delenv("SONLINE_DATA", raising=False)
    known = replace(datasets.info("heart"), urls=(f"{server.url}/heart",))
    monkeypatch.setitem(datasets.REGISTRY, "heart", known)
    server.files["heart"] = heart
    assert datasets.load("heart").y.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"+1 1:1 2:0.5\n", "1 rows, expected 2"),
        (b"+1 1:1 2:0.5\n-1 2:3\n", "other values"),
        (b"<html>moved</html>", "cannot be read"),
    ],
)
def test_a_damaged_download_is_removed_and_can_be_repeated(server, tmp_path, heart, body, problem):
    server.files["heart"] = body
    with pytest.raises(DownloadError, match=problem):
        datasets.fetch("heart", tmp_path, mirror=server.url)
    assert not (tmp_path / "raw" / "heart" / "heart").exists()
    server.files["heart"] = heart
    assert datasets.fetch("heart", tmp_path, mirror=server.url).exists()


def test_a_damaged_archive_is_removed(server, tmp_path, monkeypatch):
    rows, labels = sp.csr_matrix([[1.0, 2.0], [3.0, 0.0]]), np.array([1.0, 2.0])
    small_set(monkeypatch, rows, labels, form="covtype", urls=("http://x/covtype.data.gz",))
    whole = gzip.compress(b"1,2,1\n3,0,2\n")
    server.files["covtype.data.gz"] = whole[:-12]
    with pytest.raises(DownloadError, match="damaged"):
        datasets.fetch("heart", tmp_path, mirror=server.url)
    server.files["covtype.data.gz"] = whole
    assert datasets.fetch("heart", tmp_path, mirror=server.url).exists()


@pytest.mark.parametrize(
    ("form", "file"), [("rcv1", "rcv1.tar.gz"), ("letter", "letter.data"), ("adult", "adult.data")]
)
def test_a_page_instead_of_a_file_is_removed(server, tmp_path, monkeypatch, form, file):
    """As a publisher has it whose files have moved."""
    rows, labels = sp.csr_matrix([[1.0, 2.0], [3.0, 0.0]]), np.array([1.0, 2.0])
    small_set(monkeypatch, rows, labels, form=form, urls=(f"http://x/{file}",))
    server.files[file] = b"<html>moved</html>\n"
    with pytest.raises(DownloadError, match="cannot be read"):
        datasets.fetch("heart", tmp_path, mirror=server.url)
    assert not (tmp_path / "raw" / "heart" / file).exists()


def test_the_news_of_vowpal_wabbit_lose_their_namespace(server, tmp_path, monkeypatch):
    rows, labels = sp.csr_matrix([[0.5, 0.0, 2.0], [0.0, 1.0, 0.0]]), np.array([1.0, 0.0])
    small_set(monkeypatch, rows, labels, form="rcv1", urls=("http://x/rcv1.tar.gz",))
    text = gzip.compress(b"1 |f 1:0.5 3:2\n0 |f 2:1\n")
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        member = tarfile.TarInfo("rcv1/rcv1.train.vw.gz")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    server.files["rcv1.tar.gz"] = archive.getvalue()
    assert datasets.fetch("heart", tmp_path, mirror=server.url).exists()


def test_newsgroups_come_through_scikit_learn(tmp_path, monkeypatch):
    rows = sp.csr_matrix([[0.123457, 0.0], [0.0, 1.0]])
    small_set(monkeypatch, rows, np.array([1.0, 20.0]), form="20news", urls=())
    asked: dict[str, object] = {}

    def stand_in(**options: object) -> object:
        asked.update(options)
        bunch = type("Bunch", (), {})()
        bunch.data = sp.csr_matrix([[0.1234567891, 0.0], [0.0, 1.0]])
        bunch.target = np.array([0, 19])
        return bunch

    monkeypatch.setattr("sklearn.datasets.fetch_20newsgroups_vectorized", stand_in)
    assert datasets.fetch("heart", tmp_path).exists()
    assert asked["subset"] == "all"
    assert asked["remove"] == ("headers", "footers", "quotes")
