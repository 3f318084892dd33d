"""Static pages for the browser: the explorer of a finished release."""
