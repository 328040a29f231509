"""Checks of a running program: races, definedness, memory traffic; and their reports."""
