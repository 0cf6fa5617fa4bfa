"""When an instance has been sampled enough: rules that hold although they look again and again.

Reading order:

    top         the largest values and their signs are certain
    contest     what such a claim hangs on, where a few players alone are asked from now on
    larger      the test of two players: which |value| is larger, and its sign
    narrow      every interval is narrow
    moments     how values move together over pairs, added up so that company changes no bit
    rule        `Rule`, and the `Look` that it is shown at each check
"""
