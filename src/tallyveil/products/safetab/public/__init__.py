"""The public half of SafeTab: population groups, iterations, the adaptive plan, estimates and outputs."""
