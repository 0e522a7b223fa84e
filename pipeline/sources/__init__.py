"""Where raw rows come from, and how they become documents."""
