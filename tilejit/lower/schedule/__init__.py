"""Element addresses of an operation's operands, as functions of the mixed-radix digits of one shared index."""
