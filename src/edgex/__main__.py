"""`python -m edgex`: the same as the `edgex` command."""

from edgex.cli.entry import main

if __name__ == "__main__":
    main()
