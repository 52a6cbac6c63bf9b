"""Benchmarks: suites, runs and reports."""
