"""Hand-made sessions with the outcome a reader gives them, for the classes that real sessions seldom show."""
