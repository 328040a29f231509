"""Checks of a running kernel (races, undefined values, barriers), counts of its memory traffic, and reports."""
