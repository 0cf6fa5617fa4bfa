"""The party that keeps its rows, and answers a host within its policy.

Reading order:

    guest        `Guest`: opens a session, aligns identifiers, answers
    arguments    what a `Guest` is made with, read and checked
    sessions     the open connections: keys, and the tokens that were answered
    policy       `Policy`: the rules, stated once and checked at each request
    audit        the log of who asked for how much, chained so that no entry can be removed
"""
