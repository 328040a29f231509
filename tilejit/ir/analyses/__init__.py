"""What holds at each statement: `flow` solves an analysis; uniformity and initialization are two."""
