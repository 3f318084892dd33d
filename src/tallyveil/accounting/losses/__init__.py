"""Privacy losses: from an event to the law of its loss, and what follows from that law alone."""
