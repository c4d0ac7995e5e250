"""Models of frameworks, and files of weights, as graphs and handles."""
