"""`python -m hpckit` is the command `hpckit`."""

from hpckit.cli.main import main

if __name__ == "__main__":
    main()
