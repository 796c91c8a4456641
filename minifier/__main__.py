"""`python -m minifier`."""

from minifier.cli import main

if __name__ == "__main__":
    main()
