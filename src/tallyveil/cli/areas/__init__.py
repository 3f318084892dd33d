"""Commands about geography and its spine."""
