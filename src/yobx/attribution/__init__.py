"""Which patch touched which node of a graph, and how it is told."""
