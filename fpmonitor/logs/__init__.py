"""Log files: how they are found, read and copied, and the contract with their collectors."""
