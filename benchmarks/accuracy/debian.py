"""Streams of the index of Debian's packages: short descriptions, dependencies, tags, sections."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from benchmarks.accuracy.encode import classes, one_hot, order, signs, words
from benchmarks.accuracy.sources import Sources
from benchmarks.accuracy.stream import Rows, Stream, loaded

SOURCE = "apt:packages"
LANGUAGES = (
    "doc", "fonts", "games", "gnu-r", "golang", "haskell", "java", "javascript", "kde", "libs",
    "lisp", "localization", "net", "ocaml", "perl", "php", "python", "ruby", "rust", "science",
    "sound", "utils",
)  # fmt: skip


class Package:
    """An entry of the index.

    Parameters
    ----------
    fields
        As in the index, "Package" and "Section" among them.
    """

    def __init__(self, fields: dict[str, str]) -> None:
        self.text = fields["Description"]
        self.section = fields["Section"].split("/")[-1]
        self.source = fields.get("Source", fields["Package"]).split(" ")[0]
        self.maintainer = re.sub(r"\s*<.*", "", fields.get("Maintainer", "")).strip('" ')
        self.architecture = fields["Architecture"]
        self.priority = fields.get("Priority", "")
        self.size = float(fields.get("Installed-Size", "nan"))
        each = (part.strip() for part in fields.get("Depends", "").split(","))
        self.needs = [re.split(r"[ (:|]", part)[0] for part in each if part]
        tags = (part.strip().split("{")[0] for part in fields.get("Tag", "").split(","))
        self.tags = [tag for tag in tags if "::" in tag]

    def ids(self, *parts: str) -> list[str]:
        """Return dependencies, and "section", "maintainer" or "architecture" if asked for."""
        return [f"d:{name}" for name in self.needs] + [
            f"{part[0]}:{getattr(self, part)}" for part in parts
        ]


def parsed(text: str) -> list[Package]:
    """Return the packages of an index in a random order, each name once."""
    by_name: dict[str, Package] = {}
    for block in text.split("\n\n"):
        fields: dict[str, str] = {}
        key = ""
        for line in block.split("\n"):
            if line.startswith(" "):
                fields[key] += " " + line.strip()
            elif ":" in line:
                key, value = line.split(":", 1)
                fields[key] = value.strip()
        official = fields.get("Filename", "").startswith("pool/main")
        if official and fields["Package"] not in by_name:
            by_name[fields["Package"]] = Package(fields)
    packages = list(by_name.values())
    return [packages[i] for i in order(len(packages))]


@functools.lru_cache(maxsize=1)
def _packages(sources: Sources) -> list[Package]:
    return parsed(sources.path(SOURCE).read_text(encoding="utf-8"))


def streams(sources: Sources) -> Iterator[Stream]:
    def from_index(load: Callable[[list[Package]], Rows]) -> Callable[[Sources], Rows]:
        return lambda sources: load(_packages(sources))

    return loaded(
        sources,
        (
            (f"debian {name}", kind, group, SOURCE, from_index(load))
            for name, kind, group, load in _LOADERS
        ),
    )


def _from_text(
    packages: Sequence[Package], label: str, how: str, names: set[str] | None = None, **limits: int
) -> Rows:
    """Return the words of descriptions and the classes of a field, all or those in `names`."""
    labels = [getattr(package, label) for package in packages]
    if names is not None:
        kept = [i for i, name in enumerate(labels) if name in names]
        packages, labels = [packages[i] for i in kept], [labels[i] for i in kept]
    rows, y = classes(labels, **limits)
    return words([packages[i].text for i in rows], how), y


def _ranked(packages: Sequence[Package], label: str, first: int, last: int) -> set[str]:
    """Return the names of the classes with these ranks by frequency."""
    counted = Counter(getattr(package, label) for package in packages)
    return {name for name, _ in counted.most_common(last)[first:]}


def _section_of_needs(packages: list[Package]) -> Rows:
    sections = [n for n, _ in Counter(p.section for p in packages).most_common(14)]
    kept = [p for p in packages if p.needs and p.section in sections]
    y = np.array([sections.index(p.section) for p in kept], float)
    return one_hot([p.needs for p in kept]), y


def _size(packages: list[Package]) -> Rows:
    kept = [p for p in packages if np.isfinite(p.size)]
    X = one_hot([p.ids("section", "maintainer", "architecture") for p in kept])
    return X, np.log10(1 + np.array([p.size for p in kept]))


def _graphical(packages: list[Package]) -> Rows:
    kept = [p for p in packages if p.tags]
    hidden = ("interface", "uitoolkit", "x11")
    ids = [
        [t for t in p.tags if not t.startswith(hidden)] + [f"m:{p.maintainer}"] for p in kept
    ]  # fmt: skip
    shown = {"interface::x11", "interface::graphical"}
    return one_hot(ids), signs(bool(shown.intersection(p.tags)) for p in kept)


def _tagged(packages: list[Package], tag: str, how: str) -> Rows:
    kept = [p for p in packages if p.tags]
    return words([p.text for p in kept], how), signs(tag in p.tags for p in kept)


def _letters(packages: list[Package]) -> Rows:
    kept = [p for p in packages if p.section in LANGUAGES]
    y = np.array([LANGUAGES.index(p.section) for p in kept], float)
    return words([p.text for p in kept], "0/1", letters=(3, 3)), y


def _instruments(p: Package) -> bool:
    return p.section == "electronics" or (p.section == "science" and "astro" in p.text.lower())


_TEAM = re.compile("team|group|maintainers|packagers|debian", re.IGNORECASE)
_LOADERS: tuple[tuple[str, str, str, Callable[[list[Package]], Rows]], ...] = (
    ("section from description, tf-idf", "multiclass", "many",
     lambda all_: _from_text(all_, "section", "tf-idf", least=30)),
    ("section, 90 a class, 0/1", "multiclass", "many",
     lambda all_: _from_text(all_, "section", "0/1", least=30, cap=90)),
    ("section (22) from letters of description", "multiclass", "many", _letters),
    ("maintainer (120) from description, counts", "multiclass", "many",
     lambda all_: _from_text(
         all_, "maintainer", "counts", _ranked(all_, "maintainer", 60, 180), cap=60)),
    ("source (150) from description, tf-idf", "multiclass", "many",
     lambda all_: _from_text(all_, "source", "tf-idf", _ranked(all_, "source", 20, 170), cap=40)),
    ("section from dependencies", "multiclass", "ids", _section_of_needs),
    ("architecture all from dependencies", "binary", "ids",
     lambda all_: (
         one_hot([p.needs for p in all_ if p.needs]),
         signs(p.architecture == "all" for p in all_ if p.needs))),
    ("log installed size from ids", "regression", "ids", _size),
    ("graphical interface from tags", "binary", "ids", _graphical),
    ("team maintained, from dependencies and section", "binary", "ids",
     lambda all_: (
         one_hot([p.ids("section") for p in all_]),
         signs(_TEAM.search(p.maintainer) for p in all_))),
    ("tag interface::commandline from description, 0/1", "binary", "text",
     lambda all_: _tagged(all_, "interface::commandline", "0/1")),
    ("program or not from description, tf-idf", "binary", "text",
     lambda all_: _tagged(all_, "role::program", "tf-idf")),
    ("game from description, counts", "binary", "text",
     lambda all_: (
         words([p.text for p in all_], "counts"), signs(p.section == "games" for p in all_))),
    ("priority standard or above, ids", "binary", "rare",
     lambda all_: (
         one_hot([p.ids("section", "maintainer") for p in all_]),
         signs(p.priority in {"required", "important", "standard"} for p in all_))),
    ("astronomy or electronics from description", "binary", "rare",
     lambda all_: (words([p.text for p in all_], "0/1"), signs(map(_instruments, all_)))),
)  # fmt: skip
