"""The commands of private collection, and of all that knows of it: `private`, `ldp`, `snippet`."""
