"""Collectors: one file per source format; installed as fpmonitor.collectors."""
