"""Second-order online learning at first-order cost: Sketched Online Newton for streams."""

from importlib.metadata import version

__version__ = version("sonline")
