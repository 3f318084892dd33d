"""What commands print: tables and sentences about plans, spines, runs and guarantees."""
