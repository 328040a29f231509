"""What variants share: vectors and their masks, work shared out among threads, each owner's own elements."""
