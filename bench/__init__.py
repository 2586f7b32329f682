"""Benchmarks: what TwinRaven costs, as ratios against known peers measured in the same run."""
