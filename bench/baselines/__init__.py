"""The authors' own schemes, written from their papers, as slow baselines."""
