"""A backend whose module raises as it is imported."""

raise RuntimeError("the licence server does not answer")
