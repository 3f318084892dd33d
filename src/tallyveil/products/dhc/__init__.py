"""Several releases of the main job in one folder, and the tables of the Demographic and Housing Characteristics."""
