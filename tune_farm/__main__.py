"""`python -m tune_farm` is `tune-farm`."""

from tune_farm.cli import main

if __name__ == "__main__":
    main()
