"""Files: tables read whole or lazily, and writes that are complete or absent."""
