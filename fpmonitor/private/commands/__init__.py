"""The commands of private collection, and of all that knows of it: `private`, `ldp`, `snippet`."""

import fpmonitor.cli  # noqa: F401 -- first, whoever comes first: it names these commands
