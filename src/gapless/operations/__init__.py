"""What commands and Python programs ask for in the same words, and get in the same documents."""
