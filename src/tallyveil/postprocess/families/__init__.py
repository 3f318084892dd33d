"""The estimate of one geolevel: the problems of its families, in chunks, and the values swept up the spine."""
