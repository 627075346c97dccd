"""``python -m sonline``: the command line."""

from sonline.cli import main

if __name__ == "__main__":
    main()
