"""A programme: releases of the same people that run in order, in one folder, with one total guarantee."""
