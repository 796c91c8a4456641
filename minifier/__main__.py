"""`python -m minifier`."""

from minifier.flow.cli import main

if __name__ == "__main__":
    main()
