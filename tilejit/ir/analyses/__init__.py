"""Analyses of tile and lane IR. `flow` and `backwards` solve the dataflow problems that other modules define."""
