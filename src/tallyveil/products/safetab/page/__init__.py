"""The pages of SafeTab releases and of their evaluations."""
