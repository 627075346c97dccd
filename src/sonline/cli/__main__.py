"""``python -m sonline.cli`` is ``sonline``."""

from sonline.cli import main

main()
