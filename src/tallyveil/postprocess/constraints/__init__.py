"""What a release must satisfy: constraints at every geolevel, what two of them imply, and their files."""
