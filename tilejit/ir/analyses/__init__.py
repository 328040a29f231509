"""What holds at each statement: `flow` solves an analysis; uniformity and initialization are two.

`collectives` refuses what some threads of a scope would miss. `polling` finds loops that wait for other threads.
"""
