"""Reading, checking and counting records, compiled."""
