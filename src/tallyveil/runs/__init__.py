"""What every product shares: claiming a folder, its key, the one spend, resuming, and sealing the release."""
