"""What yobx costs, each figure measured side by side with plain Python in one run: ``python -m benchmarks``."""
