"""Known bugs of transactions, put back: the only measure of what their simulation can find."""
