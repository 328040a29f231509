"""Correct GPU programs, and changes that make each of them wrong."""
