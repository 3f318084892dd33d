"""Commands that make a release, or one of its parts."""
