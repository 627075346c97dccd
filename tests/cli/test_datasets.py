"""``sonline datasets list``: the table of all sets, and the description of one."""

import json

import pytest

from sonline.paper import datasets


@pytest.fixture(autouse=True)
def nothing_here(monkeypatch, tmp_path):
    monkeypatch.delenv("SONLINE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_all_sets_are_listed(sonline):
    assert sonline("datasets", "list", "--quiet").stdout.split() == datasets.names()
    table = sonline("datasets", "list").stdout
    assert len(datasets.names()) == 23
    assert all(f" {name} " in table for name in datasets.names())


def test_a_data_set_is_described_in_full(sonline, tmp_path):
    (tmp_path / "heart.svm").write_text("1 1:1\n-1 1:2\n")
    words = "".join(sonline("datasets", "list", "heart", "--data-dir", ".").stdout.split())
    known = datasets.info("heart")
    for fact in (known.title, known.page, *known.urls, known.licence, known.fingerprint):
        assert "".join(str(fact).split()) in words
    assert "1become+1" in words
    assert words.endswith("hereheart.svm")
    (record,) = json.loads(sonline("datasets", "list", "mnist", "--json").stdout)
    assert record["name"] == "mnist"
    assert record["file"] is None
    assert "checksum" not in sonline("datasets", "list", "mnist").stdout


def test_an_unknown_set_is_an_error_that_names_the_known_ones(sonline):
    assert "mushrooms" in sonline("datasets", "list", "nix", code=2).stderr
