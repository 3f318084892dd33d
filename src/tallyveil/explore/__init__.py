"""Static pages in the browser: the explorer of a release and the workbench of a plan."""
