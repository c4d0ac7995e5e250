"""Graphs in the form of targets."""
