"""The words of pages in the languages that come with the product; one file for each language holds its sentences."""
