"""Launches, devices and caches: from a call in Python to a kernel that runs."""
