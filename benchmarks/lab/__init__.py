"""The laboratory of distinguishers: what pages still tell apart while a list is in force."""
