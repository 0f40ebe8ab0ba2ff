"""The page of `fpmonitor ui`: from a log to a list, in a browser on the owner's machine."""
