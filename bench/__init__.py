"""The benchmark: what Belljar's speed is worth, as ratios to floors and peers measured in the same run."""
