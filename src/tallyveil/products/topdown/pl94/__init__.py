"""The tables of the redistricting data (P.L. 94-171), made from finished releases of persons and housing units."""
