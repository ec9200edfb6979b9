"""When to stop: the schedule, whether chains agree, and the modes they visit. Works on arrays of draws alone."""
