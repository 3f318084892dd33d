"""SafeTab and SafeTab-H: tables of detailed population groups, as detailed as their counts allow."""
