"""Arrays, signatures and the two devices: from a call in Python to a kernel that runs."""
