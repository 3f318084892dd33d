"""Commands that read a finished release."""
