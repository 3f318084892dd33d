"""What is published: histograms, microdata, tables, manifest, and the checks on them."""
