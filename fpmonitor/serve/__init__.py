"""The HTTP service: collection, answers, dashboard. Needs the extra `serve`."""
