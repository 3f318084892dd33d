"""Made-up households and their people, for the Demographic and Housing Characteristics."""
