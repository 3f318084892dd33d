"""Behind the wall: how SafeTab reads and measures its records."""
