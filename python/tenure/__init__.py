"""Tenure from Python. So far: `python3 -m tenure.record`, which records what a PyTorch program does."""
