"""Where the elements of an operation's operands lie, over the digits of one index that all of them share."""
