"""What the pages of all products are drawn with. Each page is one HTML file that loads nothing else."""
