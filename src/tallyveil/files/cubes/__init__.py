"""Published tables as data cubes, in the forms that the websites of statistical offices take."""
