"""The numbers of the paper's tables (appendix "Experiment Details")."""

from __future__ import annotations

ERROR_COLUMNS = ("m = 0", "m = 10", "m = 0, diagonal", "m = 10, diagonal", "AdaGrad")

ERROR_RATES: dict[str, tuple[float, float, float, float, float]] = {
    "20news": (0.121338, 0.121338, 0.049590, 0.049590, 0.068020),
    "a9a": (0.204447, 0.195203, 0.155953, 0.155953, 0.156414),
    "acoustic": (0.305824, 0.260241, 0.257894, 0.257894, 0.259493),
    "adult": (0.199763, 0.199803, 0.150830, 0.150830, 0.181582),
    "australian": (0.366667, 0.366667, 0.162319, 0.157971, 0.289855),
    "breast-cancer": (0.374817, 0.374817, 0.036603, 0.036603, 0.358712),
    "census": (0.093610, 0.062038, 0.051479, 0.051439, 0.069629),
    "cod-rna": (0.175107, 0.175107, 0.049710, 0.049643, 0.081066),
    "covtype": (0.042304, 0.042312, 0.050827, 0.050818, 0.045507),
    "diabetes": (0.433594, 0.433594, 0.329427, 0.328125, 0.391927),
    "gisette": (0.208000, 0.208000, 0.152000, 0.152000, 0.154000),
    "heart": (0.477778, 0.388889, 0.244444, 0.244444, 0.362963),
    "ijcnn1": (0.046826, 0.046826, 0.034536, 0.034645, 0.036913),
    "ionosphere": (0.188034, 0.148148, 0.182336, 0.182336, 0.190883),
    "letter": (0.306650, 0.232300, 0.233250, 0.230450, 0.237350),
    "magic04": (0.000263, 0.000263, 0.000158, 0.000158, 0.000210),
    "mnist": (0.062336, 0.062336, 0.040031, 0.039182, 0.046561),
    "mushrooms": (0.003323, 0.002339, 0.002462, 0.002462, 0.001969),
    "rcv1": (0.055976, 0.052694, 0.052764, 0.052766, 0.050938),
    "real-sim": (0.045140, 0.043577, 0.029498, 0.029498, 0.031670),
    "splice": (0.343000, 0.343000, 0.294000, 0.229000, 0.301000),
    "w1a": (0.001615, 0.001615, 0.004845, 0.004845, 0.003633),
    "w8a": (0.000101, 0.000101, 0.000422, 0.000422, 0.000221),
}
"""Error rates: Oja-SON without and with diagonal adaptation, and AdaGrad."""

FD_AND_OJA: dict[str, tuple[float, float]] = {
    "australian": (0.160, 0.158),
    "breast-cancer": (0.053, 0.037),
    "diabetes": (0.354, 0.328),
    "mushrooms": (0.005, 0.002),
    "splice": (0.226, 0.229),
}
"""Error rates of FD-SON and Oja-SON (printed in per cent with one decimal)."""

EIGENVALUE_ERRORS: dict[str, float] = {
    "a9a": 0.90,
    "australian": 0.85,
    "breast-cancer": 5.38,
    "diabetes": 5.13,
    "heart": 4.36,
    "ijcnn1": 0.57,
    "magic04": 11.48,
    "mushrooms": 0.91,
    "splice": 8.23,
    "w8a": 0.95,
}
"""Largest relative error among the top ten eigenvalues, by Oja's rule."""

RUNTIME_RATIO = 11.0
"""Time of Oja-SON with m = 10 in times of AdaGrad: "about 11 times slower"."""
