"""The `tallyveil` command as `python -m tallyveil`, for environments whose scripts are not on the search path."""

from tallyveil.cli.start import main

if __name__ == "__main__":
    main()
