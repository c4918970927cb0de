"""Requests and pages: HTTP in, HTTP out. What is done, `rules` do; what takes time is a job."""
