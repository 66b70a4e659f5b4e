"""Where records come from. A source yields what a node answered, typed, checked and as tables."""
