"""The commands that run a party, and the files that they read.

Reading order:

    commands        `xaijax guest`, `xaijax host` and `xaijax arbiter`, as argparse has them
"""
