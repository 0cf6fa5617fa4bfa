"""Published algorithms as their papers state them, in plain NumPy: what ours is beside."""
