"""The level loop: from a plan to a release folder, interruptible at any moment."""
