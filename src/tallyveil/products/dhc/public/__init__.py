"""The plan of a programme, its file and the file that lists its releases."""
