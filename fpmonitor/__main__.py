"""`python -m fpmonitor`."""

from fpmonitor.cli import main

if __name__ == "__main__":
    main()
