"""`python -m flows` is the `recipe` command."""

from flows.cli import main

if __name__ == "__main__":
    main()
