"""What watches the program: races, uninitialised reads, counts, reports. A right program runs the same without."""
