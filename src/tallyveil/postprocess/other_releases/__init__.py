"""Other finished releases that a release agrees with, or whose counts of people limit its own."""
