"""Addresses of the elements of an operation's operands, over the digits of one index that the operands share."""
