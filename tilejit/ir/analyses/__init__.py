"""Analyses of tile and lane IR. `flow` and `backwards` solve dataflow problems; most other modules define one."""
