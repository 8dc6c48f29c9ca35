"""How much may this caller do, and how long must it wait when it did more."""
