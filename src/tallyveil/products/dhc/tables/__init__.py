"""Files of the Demographic and Housing Characteristics (DHC), made from finished releases of persons and of units."""
