"""``python -m sonline``: the command line."""

from sonline.cli import main

main()
