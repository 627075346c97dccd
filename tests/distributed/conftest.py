"""A cluster of two workers, and data of three classes."""

import dask
import numpy as np
import pytest
from distributed import Client, LocalCluster
from helpers_dask import FEATURES, PARTS, ROWS

from sonline.distributed.dask import runner


@pytest.fixture(scope="module")
def cluster():
    with (
        # As long as a killed worker's successor may take to start on a busy machine.
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),
        LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def client(cluster):
    """The client of a cluster that has both workers, even if a test has killed one."""
    cluster.wait_for_workers(2, timeout=300)
    return cluster


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(PARTS * ROWS, FEATURES)) * np.logspace(0, 2, FEATURES)
    z = X / np.logspace(0, 2, FEATURES) @ rng.normal(size=(FEATURES, 3))
    return X, np.array(["ant", "bee", "cow"])[z.argmax(axis=1)], z[:, 0]


@pytest.fixture
def no_cluster(monkeypatch):
    """As where no client is in use; that of the module is alive all the time."""

    def none():
        raise ValueError

    monkeypatch.setattr(runner, "get_client", none)
    with dask.config.set(scheduler="synchronous"):
        yield
