"""What holds at each statement: `flow` solves an analysis; uniformity and initialization are two.

`polling` finds loops that wait for other threads.
"""
