"""What people call from Python. The package `tallyveil` hands on its names, and the command line calls it too."""
