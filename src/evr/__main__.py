"""``python -m evr``: the command."""

from evr.cli import main

if __name__ == "__main__":
    main()
