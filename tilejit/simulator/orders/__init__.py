"""The orders of a launch's synchronizing events."""
