"""Plots and exports of model versions, rendered at the first request and kept."""
