"""The experiments of the paper, run with the public interface of sonline only."""

from sonline.paper.experiments.streams import ill_conditioned

__all__ = ["ill_conditioned"]
