"""Files: reads tables as a whole or lazily, and writes files that are either complete or absent."""
