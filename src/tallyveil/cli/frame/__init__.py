"""What all commands share: arguments, names, progress, and the one way to write to the terminal."""
