"""Measurements of xaijax: ours and the peer in turn in one run, results compared in the same run.

Not part of the installed package. Run `python -m bench` or `make bench` from the repository's root.
"""
