"""``python -m sonline.cli`` is ``sonline``."""

from sonline.cli import main

if __name__ == "__main__":
    main()
