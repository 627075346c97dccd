"""The 23 data sets of the paper: where they come from and what makes them binary.

Rows, features and non-zeros are those of the files that reproduce the paper's table of data sets,
but for the differences that a note states. Fingerprints (`sonline.paper.datasets.fingerprint`) are
of the files with which the published error rates were reproduced; publishers give no checksums.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"

_UCI_LICENCE = "CC BY 4.0 as stated by UCI, where it comes from"
_NO_LICENCE = "the publisher states none"


@dataclass(frozen=True, kw_only=True)
class Info:
    """A data set as its publisher and the paper describe it.

    Attributes
    ----------
    name : str
        Name in the paper, and of the file without its ending.
    title : str
        What it is about.
    rows, features : int
        Expected size.
    nonzeros : float
        Expected mean number of non-zero features in a row.
    page : str
        The publisher's page.
    urls : tuple of str
        The publisher's files, in the order in which their rows follow.
    positive : frozenset of float
        Labels that become +1; all others become -1.
    task : str
        The same in words.
    licence : str
        What is known of it. Ask the publisher before passing data on.
    form : str
        How the publisher's files are written, a name in `sonline.paper.datasets.convert.FORMS`.
    keep : frozenset of float, optional
        Rows with other labels are left out.
    fingerprint : str, optional
        Hash of the contents, if known.
    note : str
        What else one should know.
    """

    name: str
    title: str
    rows: int
    features: int
    nonzeros: float
    page: str
    urls: tuple[str, ...]
    positive: frozenset[float] = frozenset({1.0})
    task: str = "+1 against -1"
    licence: str = _NO_LICENCE
    form: str = "svmlight"
    keep: frozenset[float] | None = None
    fingerprint: str | None = None
    note: str = ""


class _Source(TypedDict):
    page: str
    urls: tuple[str, ...]


class _UciSource(_Source):
    licence: str


def _libsvm(kind: str, *files: str) -> _Source:
    urls = tuple(f"{LIBSVM}{kind}/{file}" for file in files)
    return {"page": f"{LIBSVM}{kind.partition('/')[0]}.html", "urls": urls}


def _uci(page: str, *files: str) -> _UciSource:
    return {
        "page": f"https://archive.ics.uci.edu/dataset/{page}",
        "urls": tuple(f"{UCI}{file}" for file in files),
        "licence": "CC BY 4.0",
    }


VOWELS = frozenset(float(ord(letter) - ord("A") + 1) for letter in "AEIOUY")

_SETS = (
    Info(
        name="20news",
        title="20 Newsgroups, words of posts without headers, footers and quotes",
        rows=18846,
        features=101631,
        nonzeros=93.89,
        page="https://scikit-learn.org/stable/datasets/real_world.html",
        urls=(),
        form="20news",
        positive=frozenset({1.0, 16.0, 20.0}),
        task="the three groups on religion against the other 17 (the paper does not say)",
        note="fetched by scikit-learn; labels 1 to 20 are the groups in alphabetical order",
        fingerprint="ce369a0a06d605c47c6a957633cf8b65287c4517d89d9b8fd1d6b55067a6e361",
    ),
    Info(
        name="a9a",
        title="Adult, 123 binary features made by Platt",
        rows=48842,
        features=123,
        nonzeros=13.87,
        **_libsvm("binary", "a9a", "a9a.t"),
        licence=_UCI_LICENCE,
        note="training part (32,561 rows), then test part",
        fingerprint="43217eb1acf3e70e140a572dfe479fa1e521267e34c012c94a52144826c32feb",
    ),
    Info(
        name="acoustic",
        title="SensIT Vehicle, acoustic sensors",
        rows=78823,
        features=50,
        nonzeros=50.0,
        **_libsvm("multiclass/vehicle", "acoustic.bz2"),
        positive=frozenset({3.0}),
        task="class 3 against the rest (the paper does not say)",
        note="training part",
    ),
    Info(
        name="adult",
        title="Adult census, numbers as they are, words one-hot",
        rows=48842,
        features=105,
        nonzeros=12.0,
        **_uci("2/adult", "adult/adult.data", "adult/adult.test"),
        form="adult",
        task="income above 50K against the rest",
    ),
    Info(
        name="australian",
        title="Statlog credit approval, unscaled",
        rows=690,
        features=14,
        nonzeros=11.19,
        **_libsvm("binary", "australian"),
        licence=_UCI_LICENCE,
    ),
    Info(
        name="breast-cancer",
        title="Wisconsin breast cancer, unscaled; the first feature is the patient's number",
        rows=683,
        features=10,
        nonzeros=10.0,
        **_libsvm("binary", "breast-cancer"),
        positive=frozenset({2.0}),
        task="label 2 (benign) against 4 (malignant)",
        licence=_UCI_LICENCE,
        fingerprint="fcdb037034f794471210e6d91668c60ee2a82d0d4007f6af5eb463a465aa4152",
    ),
    Info(
        name="census",
        title="Census income (KDD), numbers as they are, words one-hot",
        rows=299285,
        features=401,
        nonzeros=32.01,
        **_uci(
            "117/census+income+kdd",
            "census-income-mld/census-income.data.gz",
            "census-income-mld/census-income.test.gz",
        ),
        form="census",
        task="income above 50,000 against the rest",
        note="every column of numbers counts as one, codes and the instance weight too",
        fingerprint="cc5aff026e92e2816d0ffb7a3f429ea1d130a6c47f0f23671e3bb52f3bcf9e0d",
    ),
    Info(
        name="cod-rna",
        title="Non-coding RNA",
        rows=271617,
        features=8,
        nonzeros=8.0,
        **_libsvm("binary", "cod-rna.t"),
        note="test part",
    ),
    Info(
        name="covtype",
        title="Forest cover, unscaled",
        rows=581012,
        features=54,
        nonzeros=11.88,
        **_uci("31/covertype", "covtype/covtype.data.gz"),
        form="covtype",
        positive=frozenset({1.0, 3.0, 4.0, 5.0, 6.0, 7.0}),
        task="all classes but 2 against class 2, as LIBSVM's binary version",
        fingerprint="640977a3305b1b12942b526a2066aefbcd643fd92ae7d92f214fcbe9f551037a",
    ),
    Info(
        name="diabetes",
        title="Pima diabetes, unscaled",
        rows=768,
        features=8,
        nonzeros=7.01,
        **_libsvm("binary", "diabetes"),
        note="the label -1 means diabetic",
        fingerprint="7cdaea0ce9e9595664b2d49d7c9ca791b29fbf5425691918150d8aad0be2b725",
    ),
    Info(
        name="gisette",
        title="Handwritten 4 against 9 with distractors (NIPS 2003 challenge), scaled",
        rows=1000,
        features=5000,
        nonzeros=4971.0,
        **_libsvm("binary", "gisette_scale.t.bz2"),
        licence=_UCI_LICENCE,
        note="test part",
    ),
    Info(
        name="heart",
        title="Statlog heart disease, unscaled",
        rows=270,
        features=13,
        nonzeros=9.76,
        **_libsvm("binary", "heart"),
        licence=_UCI_LICENCE,
        fingerprint="0d049567ea82d578219bfe0532a65ebe45b42f7803f8bfaf2b17a057a79a6bd4",
    ),
    Info(
        name="ijcnn1",
        title="IJCNN 2001 challenge",
        rows=91701,
        features=22,
        nonzeros=13.0,
        **_libsvm("binary", "ijcnn1.t.bz2"),
        note="test part",
        fingerprint="8c2317bed77e7111a29f8bc92e4b93aba0002190533c757e8d20cf153987156f",
    ),
    Info(
        name="ionosphere",
        title="Radar returns, scaled to [-1, 1]",
        rows=351,
        features=34,
        nonzeros=30.06,
        **_libsvm("binary", "ionosphere_scale"),
        licence=_UCI_LICENCE,
        fingerprint="4a8c272717c7382bcb852e8038412033ed1d1028d17ee2ebc419427612a4d147",
    ),
    Info(
        name="letter",
        title="Letters from 16 numbers that describe their picture",
        rows=20000,
        features=16,
        nonzeros=15.58,
        **_uci("59/letter+recognition", "letter-recognition/letter-recognition.data"),
        form="letter",
        positive=VOWELS,
        task="vowels (A, E, I, O, U, Y) against the other letters",
        note="the task follows from the error rates; the paper does not say",
        fingerprint="83f493dbfb83ddc8ccd37022c87d4d1da9c39f544ed1e896cb826abed8390604",
    ),
    Info(
        name="magic04",
        title="Gamma telescope",
        rows=19020,
        features=10,
        nonzeros=9.99,
        **_uci("159/magic+gamma+telescope", "magic/magic04.data"),
        form="magic04",
        task="gamma against hadron",
        note="sorted by class",
        fingerprint="245d4f7ad847ac11543b93661414dd3fa1c364a2e3ecac7ed46c997bf5326c99",
    ),
    Info(
        name="mnist",
        title="Handwritten digits 4 and 9",
        rows=11791,
        features=780,
        nonzeros=142.43,
        **_libsvm("multiclass", "mnist.bz2"),
        keep=frozenset({4.0, 9.0}),
        positive=frozenset({4.0}),
        task="4 against 9",
    ),
    Info(
        name="mushrooms",
        title="Mushrooms, categories one-hot",
        rows=8124,
        features=112,
        nonzeros=21.0,
        **_libsvm("binary", "mushrooms"),
        task="label 1 against 2",
        licence=_UCI_LICENCE,
        fingerprint="89ca8acd811c3bf412320f4207ee20200bf70a896090b76efe0f66db9487e7c0",
    ),
    Info(
        name="rcv1",
        title="Reuters news in the order of their date, category CCAT",
        rows=781265,
        features=43001,
        nonzeros=75.72,
        page="https://github.com/VowpalWabbit/vowpal_wabbit/wiki/Rcv1-example",
        urls=("http://hunch.net/~vw/rcv1.tar.gz",),
        form="rcv1",
        licence="Reuters' agreement on RCV1",
        note="training part of the version that Vowpal Wabbit publishes",
    ),
    Info(
        name="real-sim",
        title="Posts on real against simulated cars and planes",
        rows=72309,
        features=20958,
        nonzeros=51.30,
        **_libsvm("binary", "real-sim.bz2"),
    ),
    Info(
        name="splice",
        title="Splice junctions in DNA, bases as numbers 1 to 4",
        rows=1000,
        features=60,
        nonzeros=60.0,
        **_libsvm("binary", "splice"),
        fingerprint="52aaf2019d1b8d540034635f196ef6936a52ac8cea917c5716052a30abcc900f",
    ),
    Info(
        name="w1a",
        title="Web pages, Platt's smallest subset",
        rows=2477,
        features=300,
        nonzeros=11.47,
        **_libsvm("binary", "w1a"),
        note="sorted by class",
    ),
    Info(
        name="w8a",
        title="Web pages, Platt's largest subset",
        rows=49749,
        features=300,
        nonzeros=11.65,
        **_libsvm("binary", "w8a"),
        note="sorted by class",
        fingerprint="498eac95ea22fd0a7372d7903c1609dbb45dbea9a1e53c14a4d17a3d1e596353",
    ),
)

REGISTRY: dict[str, Info] = {info.name: info for info in _SETS}
