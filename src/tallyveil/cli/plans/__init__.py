"""Commands before a release: write its file, plan it, choose its shares, look at the plan in a browser."""
