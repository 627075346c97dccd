"""Commands about the paper: ``sonline demo``, ``datasets`` and ``reproduce``."""
